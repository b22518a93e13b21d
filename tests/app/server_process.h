#pragma once

// A command that serves HTTP, as a process of its own.

#include <csignal>
#include <regex>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "app/program.h"
#include "support/http_client.h"

namespace lockstep::app {

class ServerProcess {
 public:
  /// `file`: where what it says goes; `url`: what it says once it listens, with the port in brackets.
  ServerProcess(const std::vector<std::string>& words, io::Path file, const std::string& url) : file_(std::move(file)) {
    posix_spawn_file_actions_t streams;
    posix_spawn_file_actions_init(&streams);
    posix_spawn_file_actions_addopen(&streams, STDERR_FILENO, file_.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    posix_spawn_file_actions_adddup2(&streams, STDERR_FILENO, STDOUT_FILENO);
    child_ = start_program(words, streams);
    posix_spawn_file_actions_destroy(&streams);
    std::smatch found;
    std::string text;
    EXPECT_TRUE(support::comes_true([&] {
      text = said();
      return std::regex_search(text, found, std::regex(url));
    })) << text;
    port_ = found.empty() ? 0 : std::stoi(found[1]);
  }
  ServerProcess(const ServerProcess&) = delete;
  ServerProcess& operator=(const ServerProcess&) = delete;
  ~ServerProcess() { stop(SIGKILL); }

  void signal(int number) const { kill(child_, number); }
  /// How the process ended, within so many seconds.
  int end(std::chrono::seconds within = support::patience) {
    const int status = support::status_of(std::exchange(child_, 0), within);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }
  int stop(int number) {
    if (child_ <= 0) return 0;
    signal(number);
    return end();
  }
  std::string said() const { return io::read_file(file_); }
  support::HttpClient client() const { return support::HttpClient(port_); }
  int port() const { return port_; }
  /// Bytes of the process's memory.
  std::int64_t resident() const {
    std::int64_t all = 0, resident = 0;
    std::istringstream(io::read_file("/proc/" + std::to_string(child_) + "/statm")) >> all >> resident;
    return resident * sysconf(_SC_PAGESIZE);
  }

 private:
  io::Path file_;
  pid_t child_ = 0;
  int port_ = 0;
};

}  // namespace lockstep::app
