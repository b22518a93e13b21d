#pragma once

// Reads and writes that the kernel makes while the program goes on: Linux's io_uring (Axboe 2019). `absent.cpp` takes the place
// of liburing where a build lacks it.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

namespace lockstep::io {

class Ring {
 public:
  virtual ~Ring() = default;
  struct Move {
    int descriptor = -1;
    bool writes = false;
    std::byte* data = nullptr;  ///< untouched by others until the move is done
    std::size_t bytes = 0;
    std::uint64_t offset = 0;
    int number = 0;  ///< by which wait() names the move
  };
  /// Throws SystemError when the kernel takes no more.
  virtual void submit(const Move& move) = 0;
  struct Done {
    int number = 0;
    std::int64_t result = 0;  ///< bytes that were moved, perhaps fewer than asked for, or a negative errno
  };
  /// Blocks until one of the submitted moves is done.
  virtual Done wait() = 0;
};

struct RingChoice {
  std::unique_ptr<Ring> ring;  ///< null: the system has no ring
  std::string refused;         ///< why
};
/// Makes a ring for `moves` moves at a time.
RingChoice make_ring(unsigned moves);

}  // namespace lockstep::io
