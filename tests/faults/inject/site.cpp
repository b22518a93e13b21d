#include "faults/inject/site.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <utility>
#include <vector>

#include "io/file.h"

namespace lockstep::faults {
namespace {

constexpr int not_started = 126;

/// A file that a child gets in place of one of its standard streams. The one who runs a program opens it, as a shell does: what
/// happens to that call is not the program's concern.
class Stream {
 public:
  Stream(const Path& path, int flags) : descriptor_(::open(path.c_str(), O_CLOEXEC | flags, 0666)) {
    if (descriptor_ < 0) io::throw_file_error(errno, "open", path);
  }
  ~Stream() { ::close(descriptor_); }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  bool become(int stream) const { return ::dup2(descriptor_, stream) == stream; }

 private:
  int descriptor_;
};

}  // namespace

Site::Site(Path program, Path folder)
    : program_(std::move(program)), folder_(std::move(folder)), said_(folder_.native() + ".said") {}

Outcome Site::start(const Words& words, const std::string& output, const std::function<Outcome(const Body&)>& launch) const {
  constexpr int rewritten = O_WRONLY | O_CREAT | O_TRUNC;
  const Stream in("/dev/null", O_RDONLY), out(output.empty() ? "/dev/null" : folder_ / output, rewritten), err(said_, rewritten);
  return launch([&] {
    std::vector<char*> arguments;
    const auto command =
        std::find_if(words.begin(), words.end(), [](const std::string& word) { return word.find('=') == std::string::npos; });
    Words variables(words.begin(), command), own(command, words.end());
    for (std::string& variable : variables) ::putenv(variable.data());
    own.insert(own.begin(), "lockstep");
    for (std::string& word : own) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    const bool ready = in.become(STDIN_FILENO) && out.become(STDOUT_FILENO) && err.become(STDERR_FILENO);
    if (ready && ::chdir(folder_.c_str()) == 0) ::execv(program_.c_str(), arguments.data());
    return not_started;
  });
}

Outcome Site::run(const Words& words, const std::string& output) {
  return start(words, output, [](const Body& body) { return faults::run(body); });
}

Outcome Site::trace(const Words& words, const std::string& output, TraceOptions options) {
  options.folder = folder_;
  return start(words, output, [&](const Body& body) { return faults::trace(body, options); });
}

std::string Site::said() const { return std::filesystem::exists(said_) ? io::read_file(said_) : ""; }

void Site::reset(const Tree& tree) const {
  std::filesystem::remove_all(folder_);
  write_tree(tree, folder_);
}

}  // namespace lockstep::faults
