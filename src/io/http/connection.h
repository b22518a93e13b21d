#pragma once

// Between the server, which has the connections, and the library that speaks HTTP over one (io/http/plugin).

#include <cstddef>
#include <cstdint>
#include <functional>

#include "io/http/server.h"

namespace lockstep::io::http {

class Connection {
 public:
  virtual ~Connection() = default;
  // Each waits for as long as there is time.
  virtual bool readable() const = 0;
  virtual bool writable() const = 0;
  /// Returns the number of bytes that were read. 0: there are no more. -1: a fault, or the time is up.
  virtual std::ptrdiff_t read(char* to, std::size_t size) = 0;
  /// Writes all bytes and returns their number, or -1.
  virtual std::ptrdiff_t write(const char* from, std::size_t size) = 0;
};

/// The interface that the plugin hands over. Several threads may call it at a time.
class Speaker {
 public:
  using Handler = std::function<ServedAnswer(ServedRequest)>;
  virtual ~Speaker() = default;
  /// Reads a request and answers it. False: the connection is to be closed.
  virtual bool answer(Connection& connection, std::uint64_t body_bytes, const Handler& handler) = 0;
};

}  // namespace lockstep::io::http
