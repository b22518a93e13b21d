#include "io/held_folder.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "io/interrupted.h"

namespace lockstep::io {

HeldFolder::HeldFolder(Path path) : path_(std::move(path)) {
  descriptor_ = uninterrupted([&] { return ::open(path_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC); });
  if (descriptor_ < 0) throw_file_error(errno, "open the folder", path_);
}

HeldFolder::~HeldFolder() { ::close(descriptor_); }

bool HeldFolder::is_at(const Path& path, bool unknown) const {
  struct stat held{}, named{};
  if (::stat(path.c_str(), &named) != 0) return unknown && errno != ENOENT && errno != ENOTDIR;
  return ::fstat(descriptor_, &held) == 0 && held.st_ino == named.st_ino && held.st_dev == named.st_dev;
}

bool HeldFolder::in_place() const { return is_at(path_, true); }

std::optional<Path> HeldFolder::found() const {
  std::error_code unknown;
  const Path now = std::filesystem::read_symlink(fmt::format("/proc/self/fd/{}", descriptor_), unknown);
  if (unknown || !is_at(now, false)) return std::nullopt;
  return now;
}

}  // namespace lockstep::io
