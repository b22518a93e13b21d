#pragma once

// A file of this process alone, for what memory has no room for. It is preallocated, so that the disk is full at the start or
// never. It has no name, so that nothing is left however the program ends. Its bytes move in blocks past the page cache
// (O_DIRECT), while the program goes on (io_uring). Where the kernel or the file system refuses either, it does without.

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "io/file.h"
#include "io/uring/ring.h"

namespace lockstep::io {

/// What a spill file may use; what is refused it does without.
struct SpillWays {
  bool ring = true, direct = true;
};

class SpillFile {
 public:
  /// Offsets, sizes and addresses of what is moved are multiples of it.
  static constexpr std::size_t block = 4096;
  /// Moves under way at a time, at most.
  static constexpr int most_moves = 64;

  /// Makes a file of `bytes` bytes in `folder`, which read as zero. Throws UserError when the folder is missing, may not be
  /// written, or has too little space; the message names needed and free bytes.
  SpillFile(const Path& folder, std::uint64_t bytes, SpillWays ways = {});
  SpillFile(const SpillFile&) = delete;
  SpillFile& operator=(const SpillFile&) = delete;
  /// Waits for all moves.
  ~SpillFile();

  /// Begin to move bytes, which stay the caller's, untouched, until finish() of the number that is returned. Moves on the same
  /// bytes of the file have no order.
  int begin_read(std::uint64_t offset, std::span<std::byte> to) { return begin({-1, false, to.data(), to.size(), offset, 0}); }
  int begin_write(std::uint64_t offset, std::span<std::byte> from) {
    return begin({-1, true, from.data(), from.size(), offset, 0});
  }
  /// Blocks until the move is done; throws as a file does when it failed. Once for each move.
  void finish(int move);

  /// "io_uring with O_DIRECT", or what takes its place and why.
  const std::string& way() const { return way_; }

 private:
  /// A move that the caller began. The system may carry it out in several parts.
  struct Slot {
    Ring::Move rest = {};
    bool taken = false, done = false;
    int error = 0;  ///< an errno
  };
  int begin(Ring::Move move);
  void carry_out(Slot& slot);
  void wait_for_one();
  /// The outcome of one call: bytes moved or a negative errno.
  static void advance(Slot& slot, std::int64_t result);
  void reserve(std::uint64_t bytes);
  void choose_way(SpillWays ways);
  bool set_direct(bool direct) const;

  Path folder_;
  int descriptor_ = -1;
  std::unique_ptr<Ring> ring_;
  std::array<Slot, most_moves> slots_;
  int under_way_ = 0;  ///< in the ring
  std::string way_;
};

}  // namespace lockstep::io
