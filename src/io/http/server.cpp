#include "io/http/server.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <functional>
#include <mutex>
#include <numeric>
#include <optional>
#include <span>
#include <thread>
#include <vector>

#include "base/error.h"
#include "base/timer.h"
#include "io/http/connection.h"
#include "io/http/request_end.h"
#include "io/plugin.h"

namespace lockstep::io::http {
namespace {

using Socket = std::unique_ptr<const int, decltype([](const int* file) {
                                 close(*file);
                                 delete file;
                               })>;
Socket socket_of(int file) { return Socket(file < 0 ? nullptr : new int(file)); }

/// Bound to the address, and listening.
Socket listen_at(const std::string& address, int port) {
  addrinfo hints{}, *found = nullptr;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  const int fault = getaddrinfo(address.c_str(), std::to_string(port).c_str(), &hints, &found);
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> list(found, freeaddrinfo);
  if (fault != 0)
    throw UserError(fmt::format("cannot listen at {}: {}", address, gai_strerror(fault)),
                    "give an address of this machine, as 127.0.0.1");
  int error = 0;
  for (const addrinfo* one = found; one != nullptr; one = one->ai_next) {
    Socket listening = socket_of(socket(one->ai_family, one->ai_socktype | SOCK_CLOEXEC, one->ai_protocol));
    const int yes = 1;
    if (listening && setsockopt(*listening, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes) == 0 &&
        bind(*listening, one->ai_addr, one->ai_addrlen) == 0 && listen(*listening, 128) == 0)
      return listening;
    error = errno;
  }
  throw UserError(fmt::format("cannot listen at {}: {}", place(address, port), std::strerror(error)),
                  error == EADDRINUSE ? "another program has this port; take another one, or 0 for any that is free"
                                      : "give an address of this machine, as 127.0.0.1, and a port from 1024 on");
}

int port_of(int file) {
  sockaddr_storage name{};
  socklen_t size = sizeof name;
  getsockname(file, reinterpret_cast<sockaddr*>(&name), &size);
  return ntohs(name.ss_family == AF_INET6 ? reinterpret_cast<sockaddr_in6&>(name).sin6_port
                                          : reinterpret_cast<sockaddr_in&>(name).sin_port);
}

void write_all(int file, std::string_view text) {
  static_cast<void>(send(file, text.data(), text.size(), MSG_NOSIGNAL | MSG_DONTWAIT));
}

void wake(int event) {
  const std::uint64_t one = 1;
  static_cast<void>(::write(event, &one, sizeof one));
}

/// A connection between two answers, and what has come of its next request.
struct Kept {
  Socket connection;
  double until;  ///< it is no longer waited for
  RequestEnd end;
  std::string came = {};
  /// Its last answer is written, and what comes is dropped. Who asks has sent more than was read, perhaps: an answer is lost
  /// where a connection is closed before that has come.
  bool parting = false;
};
constexpr double parting_seconds = 1;

void see_off(const Kept& kept, int cut) {
  for (char rest[4096]; now_seconds() < kept.until;) {
    pollfd files[] = {{*kept.connection, POLLIN, 0}, {cut, POLLIN, 0}};
    if (poll(files, 2, 100) > 0 && (files[1].revents != 0 || recv(files[0].fd, rest, sizeof rest, MSG_DONTWAIT) <= 0)) return;
  }
}

/// A connection, and the time that each of its parts may take.
class TimedConnection final : public Connection {
 public:
  /// `cut`: when it can be read, nothing is waited for any more; -1: never.
  TimedConnection(Kept& kept, int cut, const ServerLimits& limits)
      : kept_(kept), file_(*kept.connection), cut_(cut), limits_(limits) {}
  /// What has come is that of the next request.
  ~TimedConnection() override { kept_.came.erase(0, read_); }
  TimedConnection(const TimedConnection&) = delete;
  TimedConnection& operator=(const TimedConnection&) = delete;

  bool readable() const override { return read_ < kept_.came.size() || wait(POLLIN, kept_.until - now_seconds()); }
  bool writable() const override { return !failed_ && wait(POLLOUT, limits_.write_seconds); }
  std::ptrdiff_t read(char* to, std::size_t size) override {
    if (const std::size_t count = kept_.came.copy(to, size, read_); count > 0) {
      read_ += count;
      return static_cast<std::ptrdiff_t>(count);
    }
    return readable() ? recv(file_, to, size, 0) : -1;
  }
  std::ptrdiff_t write(const char* from, std::size_t size) override {
    for (std::size_t done = 0; done < size;) {
      const std::ptrdiff_t count = writable() ? send(file_, from + done, size - done, MSG_NOSIGNAL | MSG_DONTWAIT) : 0;
      if (count == 0 || (count < 0 && errno != EINTR && errno != EAGAIN)) {
        failed_ = true;
        return -1;
      }
      done += static_cast<std::size_t>(std::max<std::ptrdiff_t>(count, 0));
    }
    return static_cast<std::ptrdiff_t>(size);
  }
  /// Who asks may have closed one side and wait for the answer: an interim one tells, for it is refused where nobody reads.
  bool gone() {
    pollfd file{file_, POLLRDHUP, 0};
    if (failed_ || poll(&file, 1, 0) <= 0) return failed_;
    if ((file.revents & (POLLERR | POLLHUP)) != 0) failed_ = true;
    if (!failed_ && !std::exchange(asked_, true)) write_all(file_, "HTTP/1.1 102 Processing\r\n\r\n");
    return failed_;
  }

 private:
  bool wait(short events, double seconds) const {
    pollfd files[] = {{file_, events, 0}, {cut_, POLLIN, 0}};
    int found = 0;
    do {
      found = poll(files, 2, static_cast<int>(std::max(0.0, seconds) * 1e3));
    } while (found < 0 && errno == EINTR);
    return found > 0 && files[1].revents == 0 && (files[0].revents & POLLERR) == 0;
  }
  Kept& kept_;
  std::size_t read_ = 0;  ///< of what has come
  int file_, cut_;
  const ServerLimits& limits_;
  bool failed_ = false, asked_ = false;
};

bool can_be_read(int file) {
  pollfd one{file, POLLIN, 0};
  return poll(&one, 1, 0) > 0;
}

/// Connections without a thread. The next request of one is still to come, whole or in part, or has come; others part.
class Queue {
 public:
  explicit Queue(const ServerLimits& limits) : limits_(limits), changed_(socket_of(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK))) {}
  RequestEnd request_end() const { return RequestEnd(limits_.body_bytes); }
  /// Keeps one until a request has come. The oldest is closed where there are too many. False: no more are taken.
  bool keep(Kept& kept) {
    const std::lock_guard lock(mutex_);
    if (ended_) return false;
    if (std::ssize(coming_) >= limits_.connections + limits_.waiting) coming_.erase(coming_.begin());
    kept.end = request_end();
    if (!kept.parting) kept.until = now_seconds() + (kept.came.empty() ? limits_.idle_seconds : limits_.request_seconds);
    const bool whole = !kept.came.empty() && kept.end.reached(kept.came);  // it came behind the one before
    (whole ? waiting_ : coming_).push_back(std::move(kept));
    whole ? came_.notify_one() : wake(*changed_);
    return true;
  }
  /// Waits until one of `files` or a connection can be read. What has a request is handed to a thread. Returns those that have
  /// one while too many wait.
  std::vector<Kept> wait(std::span<pollfd> files) {
    std::vector<pollfd> all(files.begin(), files.end());
    all.push_back({*changed_, POLLIN, 0});
    const std::size_t before = all.size();
    double until = now_seconds() + 60;
    {
      const std::lock_guard lock(mutex_);
      for (const Kept& one : coming_) {
        all.push_back({*one.connection, POLLIN, 0});
        until = std::min(until, one.until);
      }
    }
    poll(all.data(), all.size(), static_cast<int>(1e3 * std::max(0.0, until - now_seconds())) + 1);
    std::copy_n(all.begin(), files.size(), files.begin());
    std::uint64_t changes = 0;
    static_cast<void>(::read(*changed_, &changes, sizeof changes));
    std::vector<Kept> refused;
    const std::lock_guard lock(mutex_);
    const double now = now_seconds();
    std::size_t at = before;
    std::erase_if(coming_, [&](Kept& one) {
      while (at < all.size() && all[at].fd != *one.connection) ++at;  // those in between were closed
      const bool readable = at < all.size() && all[at].revents != 0, whole = readable && take(one, now);
      if (!whole && one.until > now) return false;
      if (one.came.empty()) return true;
      one.until = now;
      const bool full = std::ssize(waiting_) >= limits_.waiting + idle_ || bytes_of(waiting_) > most_bytes();
      (full ? refused : waiting_).push_back(std::move(one));
      came_.notify_one();
      return true;
    });
    while (bytes_of(coming_) > most_bytes()) coming_.erase(std::ranges::max_element(coming_, {}, size_of));
    return refused;
  }
  /// Nothing: there will be no more.
  std::optional<Kept> next() {
    std::unique_lock lock(mutex_);
    ++idle_;
    came_.wait(lock, [&] { return !waiting_.empty() || ended_; });
    --idle_;
    if (waiting_.empty()) return {};
    Kept kept = std::move(waiting_.front());
    waiting_.erase(waiting_.begin());
    return kept;
  }
  /// What has come is still answered, and what is on its way.
  void end() {
    constexpr double patience = 1;
    const std::lock_guard lock(mutex_);
    for (Kept& one : coming_) {
      if (one.came.empty() && !one.parting && !can_be_read(*one.connection)) continue;
      one.until = std::min(one.until, now_seconds() + patience);
      waiting_.push_back(std::move(one));
    }
    coming_.clear();
    ended_ = true;
    came_.notify_all();
  }

 private:
  static std::size_t size_of(const Kept& one) { return one.came.size(); }
  static std::uint64_t bytes_of(const std::vector<Kept>& list) {
    return std::transform_reduce(list.begin(), list.end(), std::uint64_t{0}, std::plus(), size_of);
  }
  /// The most bytes that requests which wait or are on their way may have together.
  std::uint64_t most_bytes() const { return 16 * limits_.body_bytes; }
  /// Takes what can be read. Returns whether there is nothing more to wait for.
  bool take(Kept& one, double now) const {
    char piece[1 << 16];
    const std::ptrdiff_t count = recv(*one.connection, piece, sizeof piece, MSG_DONTWAIT);
    if (count <= 0) {
      const bool later = count < 0 && (errno == EAGAIN || errno == EINTR);
      if (!later) one.until = now;
      return false;
    }
    if (one.parting) return false;
    if (one.came.empty()) one.until = now + limits_.request_seconds;
    one.came.append(piece, static_cast<std::size_t>(count));
    const bool whole = one.end.reached(one.came);
    if (!whole && one.end.expects()) write_all(*one.connection, "HTTP/1.1 100 Continue\r\n\r\n");
    return whole;
  }
  const ServerLimits& limits_;
  std::mutex mutex_;
  std::condition_variable came_;
  std::vector<Kept> waiting_, coming_;  ///< the latter from the oldest on
  Socket changed_;
  std::int64_t idle_ = 0;  ///< threads
  bool ended_ = false;
};

class OpenServer final : public Server {
 public:
  OpenServer(const std::string& address, int port, const ServerLimits& limits, Handler handler, Speaker& speaker)
      : limits_(limits),
        handler_(std::move(handler)),
        speaker_(speaker),
        listening_(listen_at(address, port)),
        ending_(socket_of(eventfd(0, EFD_CLOEXEC))),
        port_(port_of(*listening_)) {}

  int port() const override { return port_; }
  void stop() override { wake(*ending_); }
  void run() override {
    std::vector<std::jthread> threads;
    for (std::int64_t i = 0; i < limits_.connections; ++i) threads.emplace_back([this] { work(); });
    for (;;) {
      pollfd files[] = {{*listening_, POLLIN, 0}, {*ending_, POLLIN, 0}};
      for (const Kept& one : queue_.wait(files)) refuse(*one.connection);
      if (files[1].revents != 0) break;
      if (files[0].revents != 0) accept_one();
    }
    listening_.reset();  // who connects now is told at once
    queue_.end();
  }

 private:
  void accept_one() {
    Socket connection = socket_of(accept4(*listening_, nullptr, nullptr, SOCK_CLOEXEC));
    if (!connection) {  // it was closed at once, or this process has as many files as it may
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
      return;
    }
    const int yes = 1;
    setsockopt(*connection, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    Kept kept{.connection = std::move(connection), .until = 0, .end = queue_.request_end()};
    queue_.keep(kept);
  }
  void refuse(int connection) const {
    write_all(connection, fmt::format("HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\nContent-Type: {}\r\nContent-Length: "
                                      "{}\r\nConnection: close\r\n\r\n{}",
                                      limits_.busy_type, limits_.busy_body.size(), limits_.busy_body));
    shutdown(connection, SHUT_WR);
  }
  void work() {
    while (std::optional<Kept> kept = queue_.next()) {
      do {
        if (!kept->parting) answer(*kept);
      } while (!queue_.keep(*kept) && !kept->parting && (!kept->came.empty() || can_be_read(*kept->connection)));
      if (kept->connection && kept->parting) see_off(*kept, cut());
    }
  }
  /// What ends a wait for a connection; -1: nothing does.
  int cut() const { return limits_.drains ? -1 : *ending_; }
  void answer(Kept& kept) {
    {
      TimedConnection timed(kept, cut(), limits_);
      const auto handle = [&](ServedRequest request) {
        request.gone = [&] { return timed.gone(); };
        return handler_(request);
      };
      kept.parting = !speaker_.answer(timed, limits_.body_bytes, handle);
    }
    if (!kept.parting) return;
    shutdown(*kept.connection, SHUT_WR);
    kept.came.clear();
    kept.until = now_seconds() + parting_seconds;
  }
  ServerLimits limits_;
  Handler handler_;
  Speaker& speaker_;
  Socket listening_, ending_;
  int port_;
  Queue queue_{limits_};
};

}  // namespace

std::string place(const std::string& address, int port) {
  return address.find(':') == std::string::npos ? fmt::format("{}:{}", address, port) : fmt::format("[{}]:{}", address, port);
}

const std::string* ServedRequest::find(std::string_view name) const {
  const auto found = std::ranges::find_if(fields, [&](const auto& field) {
    return std::ranges::equal(field.first, name, [](char a, char b) { return (a | 32) == (b | 32); });
  });
  return found == fields.end() ? nullptr : &found->second;
}

std::unique_ptr<Server> open_server(const std::string& address, int port, const ServerLimits& limits, Server::Handler handler) {
  const Plugin plugin = open_plugin("http");
  if (plugin.object == nullptr)
    throw UserError(fmt::format("no HTTP can be served: {}", plugin.problem),
                    plugin.loads ? "build it where cpp-httplib is installed (Debian: libcpp-httplib-dev)"
                                 : "install cpp-httplib's library (Debian: libcpp-httplib0.11 or libcpp-httplib0.18)");
  return std::make_unique<OpenServer>(address, port, limits, std::move(handler), *static_cast<Speaker*>(plugin.object));
}

}  // namespace lockstep::io::http
