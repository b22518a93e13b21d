#pragma once

// A client of HTTP/1.1 that says what a test wants, byte by byte.

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>
#include <string>
#include <string_view>
#include <utility>

#include "base/timer.h"

namespace lockstep::support {

class HttpClient {
 public:
  explicit HttpClient(int port) : HttpClient() { EXPECT_TRUE(connects(port)); }
  /// Whether a connection to the port is taken.
  static bool listens(int port) { return HttpClient().connects(port); }
  HttpClient(HttpClient&& other) noexcept : socket_(std::exchange(other.socket_, -1)), came_(std::move(other.came_)) {}
  ~HttpClient() { close(); }
  void close() {
    if (socket_ >= 0) ::close(std::exchange(socket_, -1));
  }
  void close_writing() { shutdown(socket_, SHUT_WR); }
  void send(std::string_view text) const {
    while (!text.empty()) {
      const ssize_t count = ::send(socket_, text.data(), text.size(), MSG_NOSIGNAL);
      if (count <= 0) return;
      text.remove_prefix(static_cast<std::size_t>(count));
    }
  }
  void post(const std::string& path, const std::string& body, const std::string& fields = "") const {
    send("POST " + path + " HTTP/1.1\r\n" + fields + "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body);
  }

  struct Answer {
    int status = 0;  ///< 0: none came
    std::string head, body;
  };
  /// What stands before the next body.
  Answer answer_head(double seconds = 60) {
    until_ = now_seconds() + seconds;
    Answer answer;
    do {
      answer.head = up_to("\r\n\r\n");
      answer.status = answer.head.size() > 12 ? std::atoi(answer.head.c_str() + 9) : 0;
    } while (answer.status / 100 == 1);
    return answer;
  }
  /// The next answer behind interim ones; a chunked body is put together.
  Answer answer(double seconds = 60) {
    Answer answer = answer_head(seconds);
    if (const std::size_t at = answer.head.find("Content-Length: "); at != std::string::npos) {
      answer.body = bytes(std::strtoul(answer.head.c_str() + at + 16, nullptr, 10));
    } else if (answer.head.find("chunked") != std::string::npos) {
      for (std::size_t size = 1; size > 0;) {
        size = std::strtoul(up_to("\r\n").c_str(), nullptr, 16);
        answer.body += bytes(size);
        up_to("\r\n");
      }
    }
    return answer;
  }
  /// The text up to `end`, behind a head that was read. It is shorter where no more comes.
  std::string text_to(std::string_view end, double seconds = 60) {
    until_ = now_seconds() + seconds;
    return up_to(end);
  }
  /// Whether the server closes the connection within `seconds` without saying anything more.
  bool ended(double seconds = 60) {
    until_ = now_seconds() + seconds;
    return came_.empty() && !more() && came_.empty() && !timed_out_;
  }

 private:
  HttpClient() : socket_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {}
  bool connects(int port) const {
    sockaddr_in name{};
    name.sin_family = AF_INET;
    name.sin_port = htons(static_cast<std::uint16_t>(port));
    name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return connect(socket_, reinterpret_cast<const sockaddr*>(&name), sizeof name) == 0;
  }
  bool more() {
    pollfd file{socket_, POLLIN, 0};
    char piece[4096];
    timed_out_ = poll(&file, 1, static_cast<int>(1e3 * std::max(0.0, until_ - now_seconds()))) <= 0;
    if (timed_out_) return false;
    const ssize_t count = recv(socket_, piece, sizeof piece, 0);
    if (count > 0) came_.append(piece, static_cast<std::size_t>(count));
    return count > 0;
  }
  std::string up_to(std::string_view end) {
    while (came_.find(end) == std::string::npos && more()) {
    }
    const std::size_t at = came_.find(end);
    return bytes(at == std::string::npos ? came_.size() : at + end.size());
  }
  std::string bytes(std::size_t count) {
    while (came_.size() < count && more()) {
    }
    std::string taken = came_.substr(0, count);
    came_.erase(0, count);
    return taken;
  }
  int socket_;
  std::string came_;
  double until_ = 0;
  bool timed_out_ = false;
};

}  // namespace lockstep::support
