#include "app/report/browser.h"

#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string>
#include <system_error>
#include <vector>

#include "base/error.h"
#include "base/number_text.h"

namespace lockstep::app {
namespace {

/// The words of `command` with the file in them.
std::vector<std::string> words_of(const std::string& command, const std::string& file) {
  std::vector<std::string> words = parts_of_list(command, ' ');
  std::erase(words, "");
  bool placed = false;
  for (std::string& word : words) {
    const std::size_t at = word.find("%s");
    if (at == std::string::npos) continue;
    word.replace(at, 2, file);
    placed = true;
  }
  if (!placed) words.push_back(file);
  return words;
}

/// How the program ended, as a shell counts; none: it is not there.
std::optional<int> code_of(std::vector<std::string> words) {
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  pid_t child = 0;
  if (posix_spawnp(&child, arguments[0], nullptr, nullptr, arguments.data(), environ) != 0) return std::nullopt;
  int status = 0;
  while (waitpid(child, &status, 0) < 0) {
    if (errno != EINTR) return 1;
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace

io::Path temporary_page() {
  constexpr int end = 5;  // ".html"
  std::string name = (std::filesystem::temp_directory_path() / "lockstep-report-XXXXXX.html").string();
  const int file = mkstemps(name.data(), end);
  if (file < 0) throw SystemError(fmt::format("{} cannot be made: {}", name, std::generic_category().message(errno)));
  close(file);
  return name;
}

void open_page(const io::Path& page) {
  const std::string file = io::whole_path(page).string();
  const std::string remedy = fmt::format("open {} in a browser, or name one: BROWSER=firefox", file);
  const char* named = std::getenv("BROWSER");
  for (const std::string& command : parts_of_list(named != nullptr && *named != '\0' ? named : "xdg-open", ':')) {
    if (const std::optional<int> code = code_of(words_of(command, file))) {
      if (*code == 0) return;
      throw UserError(fmt::format("--open: {} ended with {}", command, *code), remedy);
    }
  }
  throw UserError(named != nullptr && *named != '\0' ? fmt::format("--open: BROWSER={}: there is no such program", named)
                                                     : "--open: there is no xdg-open here, and $BROWSER is not set",
                  remedy);
}

}  // namespace lockstep::app
