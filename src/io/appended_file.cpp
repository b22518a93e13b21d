#include "io/appended_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>

#include "base/error.h"
#include "io/interrupted.h"

namespace lockstep::io {

AppendedFile::AppendedFile(Path path, Open open) : path_(std::move(path)) {
  // O_NONBLOCK: opening a pipe would wait for one who reads.
  const int flags = O_WRONLY | O_APPEND | O_CREAT | O_NONBLOCK | O_CLOEXEC | (open == Open::new_one ? O_EXCL : 0);
  descriptor_ = uninterrupted([&] { return ::open(path_.c_str(), flags, 0666); });
  if (descriptor_ < 0 && errno == ENXIO)
    throw UserError(fmt::format("cannot write {}: it is a pipe that nobody reads", path_.string()), "move it away");
  if (descriptor_ < 0) throw_file_error(errno, "write", path_);
  try {
    demand_regular_file(descriptor_, "write", path_);
  } catch (...) {
    ::close(descriptor_);
    throw;
  }
}

AppendedFile::~AppendedFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

void AppendedFile::append(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t count = uninterrupted([&] { return ::write(descriptor_, bytes.data(), bytes.size()); });
    if (count < 0) throw_file_error(errno, "write", path_);
    bytes.remove_prefix(static_cast<std::size_t>(count));
  }
}

}  // namespace lockstep::io
