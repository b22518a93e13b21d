#include <httplib.h>

#include <algorithm>
#include <functional>
#include <string>
#include <string_view>
#include <utility>

#include "base/text/lower.h"
#include "io/http/connection.h"
#include "io/http/request_end.h"

namespace lockstep::io::http {
namespace {

/// The library's stream over a connection of ours.
class Stream final : public httplib::Stream {
 public:
  /// Reads at most `most` bytes of a request.
  Stream(Connection& connection, std::uint64_t most) : connection_(connection), left_(most) {}
  bool too_long() const { return left_ == 0; }
  bool is_readable() const override { return connection_.readable(); }
  bool is_writable() const override { return connection_.writable(); }
  ssize_t read(char* to, std::size_t size) override {
    const ssize_t count = left_ == 0 ? -1 : connection_.read(to, std::min<std::uint64_t>(size, left_));
    if (count > 0) left_ -= static_cast<std::uint64_t>(count);
    return count;
  }
  ssize_t write(const char* from, std::size_t size) override { return connection_.write(from, size); }
  void get_remote_ip_and_port(std::string&, int&) const override {}
  void get_local_ip_and_port(std::string&, int&) const override {}
  socket_t socket() const override { return 0; }  // the library waits at none, and takes none from FD_SETSIZE on

 private:
  Connection& connection_;
  std::uint64_t left_;
};

/// Reads one request and writes its answer. The library's own sockets and threads are not used.
class OneRequest final : public httplib::Server {
 public:
  OneRequest(Connection& connection, std::uint64_t body_bytes, const Speaker::Handler& handler)
      : stream_(connection, body_bytes + most_head), handler_(handler) {
    svr_sock_ = 0;  // else the library takes itself for shutting down
    set_payload_max_length(body_bytes);
    const auto serve = [this](const httplib::Request& asked, httplib::Response& answer) {
      give(handler_(request_of(asked, refused_ ? 400 : 0)), answer, asked.version);
    };
    Get("/", serve).Post("/", serve).Put("/", serve).Patch("/", serve).Delete("/", serve).Options("/", serve);
    set_error_handler([this](const httplib::Request& asked, httplib::Response& answer) {
      if (!answer.body.empty()) return;
      // What the library refuses by itself is answered as all else is; what follows in the connection is not understood.
      ends_ = true;
      ServedAnswer own = handler_(request_of(asked, stream_.too_long() ? 413 : answer.status));
      give(std::move(own), answer, asked.version);
    });
  }

  /// False: the connection is to be closed.
  bool answer() {
    bool closed = false;
    return process(*this, stream_, closed, [this](httplib::Request& asked) { route(asked); }) && !closed && !ends_;
  }

 private:
  /// There is one route: the library matches paths by regular expressions, which take a stack as deep as a path is long. A body
  /// stays as it is, for a packed one may be of any size.
  void route(httplib::Request& asked) {
    path_ = std::exchange(asked.path, "/");
    coding_ = asked.get_header_value("Content-Encoding");
    asked.headers.erase("Content-Encoding");
    asked.headers.erase("Expect");        // it was told to go on when its head had come
    asked.headers.erase("Content-Type");  // the library takes a form apart, of 8 KiB at most
    asked.ranges.clear();                 // an answer is given whole
    refused_ = !ends_plainly(asked);
    const bool has_end = asked.has_header("Content-Length") || asked.has_header("Transfer-Encoding");
    if (refused_) asked.headers.erase("Transfer-Encoding");
    if (refused_ || !has_end) {  // the library would read on until the connection ends
      asked.headers.erase("Content-Length");
      asked.set_header("Content-Length", "0");
    }
    ends_ = refused_ || asked.version == "HTTP/1.0";
    if (ends_) {
      asked.headers.erase("Connection");
      asked.set_header("Connection", "close");
    }
  }

  /// Whether all who read a request find the same end of it. Else one of them would take the bytes behind it for a new request,
  /// another for a part of this one. (RFC 9112, 6.3 and 11.2.) The library reads no body of a GET, and any "Content-Length : 5".
  static bool ends_plainly(const httplib::Request& asked) {
    std::string lengths, codings;
    for (const auto& [name, value] : asked.headers) {
      if (name.find_first_of(" \t") != std::string::npos) return false;
      if (lower(name) == "content-length") lengths += value + ",";
      if (lower(name) == "transfer-encoding") codings += value + ",";
    }
    const bool has_body = asked.method == "POST" || asked.method == "PUT" || asked.method == "PATCH" || asked.method == "DELETE";
    if (!has_body) return codings.empty() && (lengths.empty() || lengths == "0,");
    if (!codings.empty()) return lengths.empty() && lower(codings) == "chunked,";
    return lengths.empty() || (lengths.size() > 1 && lengths.find_first_not_of("0123456789") == lengths.size() - 1);
  }

  ServedRequest request_of(const httplib::Request& asked, int refused) const {
    ServedRequest request{
        .method = asked.method, .path = path_, .fields = {}, .body = asked.body, .refused = refused, .gone = {}};
    for (const auto& [name, value] : asked.headers) request.fields.emplace_back(name, value);
    if (!coding_.empty()) request.fields.emplace_back("Content-Encoding", coding_);
    return request;
  }

  static void give(ServedAnswer own, httplib::Response& answer, const std::string& version) {
    answer.status = own.status;
    for (const auto& [name, value] : own.fields) answer.set_header(name.c_str(), value.c_str());
    if (!own.stream) return answer.set_content(own.body, own.type.c_str());
    const auto provide = [write = std::move(own.stream)](std::size_t, httplib::DataSink& sink) {
      bool taken = true;
      write([&](std::string_view piece) { return taken = taken && sink.write(piece.data(), piece.size()); });
      if (taken) sink.done();
      return taken;
    };
    if (version != "HTTP/1.0") return answer.set_chunked_content_provider(own.type.c_str(), provide);
    answer.set_content_provider(own.type.c_str(), provide);  // it knows no chunks: the connection's end is the answer's
  }

  // The library's process_request() has few parameters in version 0.11 (Debian 12), and more in 0.16 and later (Debian 13).
  template <class Self>
  static bool process(Self& self, httplib::Stream& stream, bool& closed, const std::function<void(httplib::Request&)>& route) {
    if constexpr (requires { self.process_request(stream, false, closed, route); }) {
      return self.process_request(stream, false, closed, route);
    } else {
      return self.process_request(stream, "", 0, "", 0, false, closed, route);
    }
  }

  Stream stream_;
  const Speaker::Handler& handler_;
  std::string path_, coding_;
  bool refused_ = false;  ///< for where it ends is not told plainly
  bool ends_ = false;     ///< the connection, behind its answer
};

class HttplibSpeaker final : public Speaker {
 public:
  bool answer(Connection& connection, std::uint64_t body_bytes, const Handler& handler) override {
    return OneRequest(connection, body_bytes, handler).answer();
  }
};

}  // namespace
}  // namespace lockstep::io::http

extern "C" void* LOCKSTEP_PLUGIN_ENTRY() {
  static lockstep::io::http::HttplibSpeaker speaker;
  return static_cast<lockstep::io::http::Speaker*>(&speaker);
}
