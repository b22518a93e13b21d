#pragma once

// The page of runs that go on, for browsers: "/" is the page, "/events" its body as server-sent events whenever it has changed.

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "app/watch/watched_runs.h"
#include "io/http/server.h"

namespace lockstep::app {

inline constexpr std::int64_t watch_port = 8001;  ///< the default of --port and of --watch

class WatchServer {
 public:
  /// Listens, and answers in threads of its own, which give way to all others. Throws as io::http::open_server().
  WatchServer(std::vector<std::string> folders, std::string address, int port);
  /// Tells readers what they have not seen, and ends at once.
  ~WatchServer();
  WatchServer(const WatchServer&) = delete;
  WatchServer& operator=(const WatchServer&) = delete;
  /// "http://127.0.0.1:8001/"
  std::string url() const;

 private:
  io::http::ServedAnswer answer(const io::http::ServedRequest& request);
  void follow(const io::http::ServedAnswer::Put& put);
  WatchedRuns runs_;
  const std::string address_, policy_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool ending_ = false;
  std::int64_t followed_ = 0;  ///< streams of events
  std::int64_t telling_ = 0;   ///< those that wait for their readers to take bytes
  std::unique_ptr<io::http::Server> server_;
  std::jthread thread_;
};

}  // namespace lockstep::app
