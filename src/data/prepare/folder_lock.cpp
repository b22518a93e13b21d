#include "data/prepare/folder_lock.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <thread>

#include "base/error.h"
#include "base/timer.h"
#include "io/interrupted.h"

namespace lockstep::data {

FolderLock::FolderLock(const io::Path& folder, double seconds, Log& log) : folder_(folder), made_(!io::exists(folder)) {
  io::make_folders(folder);
  descriptor_ = io::uninterrupted([&] { return ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC); });
  if (descriptor_ < 0) io::throw_file_error(errno, "open the folder", folder);
  constexpr std::chrono::milliseconds pause(50);
  bool told = false;
  for (const double until = now_seconds() + seconds;; std::this_thread::sleep_for(pause)) {
    exclusive_ = io::uninterrupted([&] { return ::flock(descriptor_, LOCK_EX | LOCK_NB); }) == 0;
    if (exclusive_ || errno != EWOULDBLOCK) return;
    if (now_seconds() >= until) break;
    if (!told) log.info(fmt::format("Waiting for another process that prepares {}", folder.string()));
    told = true;
  }
  ::close(descriptor_);
  throw UserError(fmt::format("another process is preparing {}", folder.string()),
                  "wait for it, end it, or choose another folder");
}

FolderLock::~FolderLock() {
  if (made_ && exclusive_) ::rmdir(folder_.c_str());  // does nothing where something was prepared
  ::close(descriptor_);
}

}  // namespace lockstep::data
