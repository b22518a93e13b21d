#include "data/prepare/download.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <filesystem>
#include <system_error>
#include <vector>

#include "base/error.h"

namespace lockstep::data {
namespace {

struct Outcome {
  int start_error = 0;  // an errno when the program could not be started
  int status = 0;       // its exit status
  std::string said;     // on standard error
};

std::string read_all(int descriptor) {
  std::string text;
  std::array<char, 512> block;
  for (ssize_t count = 0; (count = ::read(descriptor, block.data(), block.size())) > 0 || (count < 0 && errno == EINTR);) {
    if (count > 0) text.append(block.data(), static_cast<std::size_t>(count));
  }
  return text;
}

// Runs a program without a shell.
Outcome run(std::vector<std::string> words) {
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) throw SystemError(fmt::format("pipe: {}", std::generic_category().message(errno)));
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDERR_FILENO);
  Outcome outcome;
  pid_t child = 0;
  outcome.start_error = ::posix_spawnp(&child, arguments[0], &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  ::close(ends[1]);
  if (outcome.start_error == 0) {
    outcome.said = read_all(ends[0]);
    int status = 0;
    while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    outcome.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }
  ::close(ends[0]);
  return outcome;
}

}  // namespace

void download(const std::string& url, const io::Path& path, const std::string& remedy, const std::string& curl) {
  io::Path partial = path;
  partial += ".partial";
  const Outcome outcome = run({curl, "-fsSL", "--connect-timeout", "15", "--retry", "2", "-o", partial.string(), url});
  if (outcome.start_error != 0) {
    throw UserError(fmt::format("cannot download {}: the program {} cannot be run ({})", url, curl,
                                std::generic_category().message(outcome.start_error)),
                    "install curl, or " + remedy);
  }
  if (outcome.status != 0) {
    std::error_code none;
    std::filesystem::remove(partial, none);
    std::string said = outcome.said;
    while (said.ends_with('\n')) said.pop_back();
    throw UserError(
        fmt::format("cannot download {}: {}", url, said.empty() ? fmt::format("{} ended with {}", curl, outcome.status) : said),
        "is there a network? Without one, " + remedy);
  }
  std::filesystem::rename(partial, path);
}

}  // namespace lockstep::data
