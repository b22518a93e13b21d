#include "io/stream.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string_view>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "io/interrupted.h"

namespace lockstep::io {
namespace {

constexpr std::size_t largest_transfer = std::size_t{1} << 30;  // Linux moves at most 2 GiB a call

class OpenedStream final : public ByteStream {
 public:
  OpenedStream(Path path, Patience patience) : path_(std::move(path)), patience_(patience) {
    // O_NONBLOCK: opening a pipe would wait for one who writes. Regular files do not know it.
    descriptor_ = uninterrupted([&] { return ::open(path_.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC); });
    if (descriptor_ < 0) throw_file_error(errno, "read", path_);
    struct stat status{};
    waits_ = ::fstat(descriptor_, &status) == 0 && !S_ISREG(status.st_mode) && !S_ISDIR(status.st_mode);
  }
  OpenedStream(const OpenedStream&) = delete;
  OpenedStream& operator=(const OpenedStream&) = delete;
  ~OpenedStream() override { ::close(descriptor_); }

  // A pipe without a writer: poll() says nothing, and read() tells the end. With a silent writer read() gives EAGAIN.
  std::size_t read(std::span<std::byte> out) override {
    for (double waited = 0;;) {
      const double next = waited == 0 ? patience_.writer : patience_.silent ? *patience_.silent - waited : day;
      const bool came = !waits_ || ready(next);
      const ssize_t count =
          uninterrupted([&] { return ::read(descriptor_, out.data(), std::min(out.size(), largest_transfer)); });
      if (count == 0 && !came) refuse("nobody writes into that pipe", next);
      if (count >= 0) return static_cast<std::size_t>(count);
      if (errno != EAGAIN) throw_file_error(errno, "read", path_);
      if (came) continue;
      waited += next;
      if (patience_.silent && waited >= *patience_.silent) refuse("nothing comes from there", waited);
    }
  }

 private:
  static constexpr double day = 86400;

  // Whether there is something to read, or the end, within so many seconds.
  bool ready(double seconds) const {
    pollfd watched{.fd = descriptor_, .events = POLLIN, .revents = 0};
    return uninterrupted([&] { return ::poll(&watched, 1, static_cast<int>(seconds * 1000)); }) != 0;
  }

  [[noreturn]] void refuse(std::string_view what, double waited) const {
    throw UserError(fmt::format("cannot read {}: {} ({:.0f} s were waited)", path_.string(), what, waited),
                    "start what writes there first, or put it into a file and name that");
  }

  Path path_;
  Patience patience_;
  int descriptor_ = -1;
  bool waits_ = false;
};

class CStream final : public ByteStream {
 public:
  explicit CStream(std::FILE* file) : file_(file) {}
  std::size_t read(std::span<std::byte> out) override {
    const std::size_t count = std::fread(out.data(), 1, out.size(), file_);
    if (count == 0 && std::ferror(file_) != 0) {
      throw SystemError(fmt::format("cannot read standard input: {}", std::generic_category().message(errno)));
    }
    return count;
  }

 private:
  std::FILE* file_;
};

}  // namespace

std::unique_ptr<ByteStream> open_stream(const Path& path, Patience patience) {
  return std::make_unique<OpenedStream>(path, patience);
}

std::unique_ptr<ByteStream> stream_of(std::FILE* file) { return std::make_unique<CStream>(file); }

std::size_t read_up_to(ByteStream& stream, std::span<std::byte> out) {
  std::size_t filled = 0;
  while (filled < out.size()) {
    const std::size_t count = stream.read(out.subspan(filled));
    if (count == 0) break;
    filled += count;
  }
  return filled;
}

}  // namespace lockstep::io
