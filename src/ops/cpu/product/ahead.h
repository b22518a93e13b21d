#pragma once

// Memory that a product will need after its present block of k. Tiles fetch it while they compute. No bit of a result depends on
// it.

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/dtype.h"
#include "ops/cpu/product/microkernel.h"
#include "ops/cpu/product/pack.h"

namespace lockstep::ops::cpu {

/// Parts of matrices that tiles fetch in runs, a cache line or two from each of 64 rows. Fetching all at once would wait for
/// memory, for a fifth of the time of a product with few rows.
class Ahead {
 public:
  static constexpr std::size_t most_parts = 8;

  explicit Ahead(const Microkernel& kernel) : line_(kernel.ahead_bytes) {}
  /// Adds a part. Call it at most most_parts times.
  void add(const std::byte* from, DType type, std::int64_t stride, std::int64_t rows, std::int64_t columns) {
    const auto size = static_cast<std::int64_t>(size_of(type));
    parts_[count_++] = {from, stride * size, rows, columns * size};
  }
  /// Gives `tile` the next run, none when all were given.
  void next(TileStep& tile) {
    tile.ahead = nullptr;
    if (part_ == count_) return;
    const Part& part = parts_[part_];
    tile.ahead = part.from + row_ * part.stride + byte_;
    tile.ahead_stride = part.stride;
    byte_ += line_;
    if (byte_ < part.bytes) return;
    byte_ = 0;
    row_ += run;
    if (row_ < part.rows) return;
    row_ = 0;
    ++part_;
  }

 private:
  static constexpr std::int64_t run = k_block / 4;
  struct Part {
    const std::byte* from;
    std::int64_t stride, rows, bytes;  // stride and length of a row in bytes
  };
  std::array<Part, most_parts> parts_{};
  std::size_t count_ = 0, part_ = 0;
  std::int64_t line_, row_ = 0, byte_ = 0;
};

}  // namespace lockstep::ops::cpu
