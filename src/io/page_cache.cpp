#include "io/page_cache.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

#include "io/interrupted.h"

namespace lockstep::io {

void drop_cached(const Path& path) {
  const int descriptor = uninterrupted([&] { return ::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC); });
  if (descriptor < 0) throw_file_error(errno, "read", path);
  const int code = ::posix_fadvise(descriptor, 0, 0, POSIX_FADV_DONTNEED);
  ::close(descriptor);
  if (code != 0) throw_file_error(code, "drop what is cached of", path);
}

}  // namespace lockstep::io
