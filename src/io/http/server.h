#pragma once

// A server of HTTP/1.1. Requests are read and answers written by cpp-httplib (in a plugin: io/plugin.h); connections, their time
// and their number are seen to here.

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace lockstep::io::http {

struct ServerLimits {
  std::int64_t connections = 64;       ///< served at a time, by a thread each
  std::int64_t waiting = 64;           ///< for a thread; further ones get 503
  std::uint64_t body_bytes = 4 << 20;  ///< of a request; larger ones get 413
  double request_seconds = 20;         ///< in which a request has to come, whole
  double idle_seconds = 5;             ///< between requests of a connection
  double write_seconds = 20;           ///< without a byte taken by the client
  bool drains = true;  ///< requests that had come when stop() was called are answered; false: connections end at once
  std::string busy_type = "application/json", busy_body = {};  ///< of a 503
};

struct ServedRequest {
  std::string method, path;  ///< the path without what follows a '?'
  std::vector<std::pair<std::string, std::string>> fields;
  std::string body;
  int refused = 0;  ///< the status by which the request is refused, as no HTTP or too large; 0: it is not refused
  /// Whether the client has gone away, as far as can be told without an answer.
  std::function<bool()> gone;
  /// The value of a field, whose name is written in any case; or null.
  const std::string* find(std::string_view name) const;
};

struct ServedAnswer {
  int status = 200;
  std::string type = "application/json";
  std::vector<std::pair<std::string, std::string>> fields = {};
  std::string body = {};
  /// Writes a body piece by piece in place of `body`, by calls of `put`, which is false when nobody takes it any more.
  using Put = std::function<bool(std::string_view)>;
  std::function<void(const Put& put)> stream = {};
};

/// The address and port as text: "127.0.0.1:80", "[::1]:80".
std::string place(const std::string& address, int port);

class Server {
 public:
  using Handler = std::function<ServedAnswer(const ServedRequest&)>;
  virtual ~Server() = default;
  /// The port that is listened at.
  virtual int port() const = 0;
  /// Serves until stop() is called. With ServerLimits::drains, requests that have come by then are answered first.
  virtual void run() = 0;
  /// No connection is taken any more. Thread-safe, and safe in a signal handler.
  virtual void stop() = 0;
};

/// Listens at a port of an address of this machine (0: any that is free). `handler` is called by several threads at a time, and
/// throws nothing. Throws UserError for an address or a port that cannot be had, and
/// where the plugin is missing.
std::unique_ptr<Server> open_server(const std::string& address, int port, const ServerLimits& limits, Server::Handler handler);

}  // namespace lockstep::io::http
