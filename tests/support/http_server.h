#pragma once

// A server on this machine that answers as a test wants, well or badly. A connection has one request.

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <functional>
#include <list>
#include <mutex>
#include <stop_token>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

namespace lockstep::support {

struct HttpAsked {
  std::string path;  ///< with what stands behind a "?"
  std::string head;  ///< all lines, as they came
  bool says(std::string_view text) const { return head.find(text) != head.npos; }
};

class HttpConnection {
 public:
  HttpConnection(int socket, std::stop_token stop) : socket_(socket), stop_(std::move(stop)) {}
  void send(std::string_view text) const {
    while (!text.empty()) {
      const ssize_t count = ::send(socket_, text.data(), text.size(), MSG_NOSIGNAL);
      if (count <= 0) return;
      text.remove_prefix(static_cast<std::size_t>(count));
    }
  }
  /// A whole answer; `more`: lines of the head, each with its end.
  void answer(int status, std::string_view type, std::string_view body, const std::string& more = "") const {
    send("HTTP/1.1 " + std::to_string(status) + " x\r\nContent-Type: " + std::string(type) +
         "\r\nContent-Length: " + std::to_string(body.size()) + "\r\nConnection: close\r\n" + more + "\r\n");
    send(body);
  }
  /// Says nothing more until the other side is gone.
  void stall() const {
    char byte = 0;
    while (!stop_.stop_requested()) {
      pollfd watched{socket_, POLLIN, 0};
      if (::poll(&watched, 1, 20) > 0 && ::recv(socket_, &byte, 1, 0) <= 0) return;
    }
  }

 private:
  int socket_;
  std::stop_token stop_;
};

class HttpServer {
 public:
  using Answer = std::function<void(const HttpAsked& asked, const HttpConnection& to)>;
  explicit HttpServer(Answer answer) : answer_(std::move(answer)), socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in here{};
    here.sin_family = AF_INET;
    here.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof here;
    EXPECT_EQ(::bind(socket_, reinterpret_cast<sockaddr*>(&here), size), 0);
    EXPECT_EQ(::listen(socket_, 16), 0);
    ::getsockname(socket_, reinterpret_cast<sockaddr*>(&here), &size);
    port_ = ntohs(here.sin_port);
    thread_ = std::jthread([this](const std::stop_token& stop) { serve(stop); });
  }
  ~HttpServer() {
    thread_ = {};
    connections_.clear();
    ::close(socket_);
  }
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  std::string url() const { return "http://127.0.0.1:" + std::to_string(port_); }
  /// All requests so far.
  std::vector<HttpAsked> asked() const {
    const std::lock_guard lock(mutex_);
    return asked_;
  }

 private:
  void serve(const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      pollfd watched{socket_, POLLIN, 0};
      if (::poll(&watched, 1, 20) <= 0) continue;
      const int socket = ::accept4(socket_, nullptr, nullptr, SOCK_CLOEXEC);
      if (socket < 0) continue;
      connections_.emplace_back([this, socket](const std::stop_token& over) {
        reply(socket, over);
        ::shutdown(socket, SHUT_RDWR);
        ::close(socket);
      });
    }
  }
  void reply(int socket, const std::stop_token& stop) {
    HttpAsked asked;
    while (!asked.says("\r\n\r\n")) {
      char piece[4096];
      const ssize_t count = ::recv(socket, piece, sizeof piece, 0);
      if (count <= 0) return;
      asked.head.append(piece, static_cast<std::size_t>(count));
      if (asked.head.front() == '\x16') return;  // TLS, which it does not have
    }
    const std::size_t start = asked.head.find(' ') + 1;
    asked.path = asked.head.substr(start, asked.head.find(' ', start) - start);
    {
      const std::lock_guard lock(mutex_);
      asked_.push_back(asked);
    }
    answer_(asked, HttpConnection(socket, stop));
  }

  Answer answer_;
  int socket_;
  std::uint16_t port_ = 0;
  mutable std::mutex mutex_;
  std::vector<HttpAsked> asked_;
  std::list<std::jthread> connections_;
  std::jthread thread_;
};

}  // namespace lockstep::support
