#pragma once

// Which positions of a sample a tensor's rows have: the same in every sample, one or two runs of consecutive ones. A rank of
// context parallelism has two, one from the front and one from the back, so that all ranks see as many keys.

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>

#include "base/error.h"

namespace lockstep::ops {

/// Positions [first, first + count).
struct PositionRun {
  std::int64_t first = 0, count = 0;
  std::int64_t end() const { return first + count; }
};

class Positions {
 public:
  /// None.
  Positions() = default;
  Positions(std::int64_t first, std::int64_t count) : Positions({first, count}, {first + count, 0}) {}
  /// Rows of `front` come before those of `back`, as their positions do (BrokenRule).
  Positions(const PositionRun& front, const PositionRun& back) : runs_{front, back} {
    ensure(front.first >= 0 && front.count >= 0 && back.count >= 0, "positions are not negative");
    ensure(back.first >= front.end(), "runs of positions follow each other");
  }

  /// Rows of a sample.
  std::int64_t count() const { return runs_[0].count + runs_[1].count; }
  /// The position of a row of a sample; of row i of a tensor: at(i % count()).
  std::int64_t at(std::int64_t row) const {
    const std::int64_t behind = row - runs_[0].count;
    return behind < 0 ? runs_[0].first + row : runs_[1].first + behind;
  }
  /// Behind the last position.
  std::int64_t end() const { return runs_[1].count > 0 ? runs_[1].end() : runs_[0].end(); }
  /// Those of rows [first, first + count) of a sample.
  Positions part(std::int64_t first, std::int64_t count) const {
    ensure(first >= 0 && count >= 0 && first + count <= this->count(), "a part lies among the rows");
    const std::int64_t in_front = std::clamp<std::int64_t>(runs_[0].count - first, 0, count);
    if (in_front == 0) return {at(first), count};
    return {{at(first), in_front}, {runs_[1].first, count - in_front}};
  }
  /// In order; a run may be empty.
  std::span<const PositionRun> runs() const { return runs_; }

 private:
  std::array<PositionRun, 2> runs_{};
};

}  // namespace lockstep::ops
