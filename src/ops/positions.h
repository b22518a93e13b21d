#pragma once

// Which positions of a sample a tensor's rows have: the same in every sample, one or two runs of consecutive ones. A rank of
// context parallelism has two, one from the front and one from the back, so that all ranks see as many keys.
//
// Where samples are several documents, `starts` [B, T] i32 has the first position of its document for every position of a sample.
// No position sees what lies before that start. What depends on positions counts from it. Empty: a sample is one document.

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>

#include "base/error.h"
#include "tensor/tensor.h"

namespace lockstep::ops {

/// Positions [first, first + count).
struct PositionRun {
  std::int64_t first = 0, count = 0;
  std::int64_t end() const { return first + count; }
};

class Positions {
 public:
  /// No positions.
  Positions() = default;
  Positions(std::int64_t first, std::int64_t count) : Positions({first, count}, {first + count, 0}) {}
  /// Rows of `front` come before those of `back`, as their positions do (BrokenRule).
  Positions(const PositionRun& front, const PositionRun& back) : runs_{front, back} {
    ensure(front.first >= 0 && front.count >= 0 && back.count >= 0, "positions are not negative");
    ensure(back.first >= front.end(), "runs of positions follow each other");
  }

  /// Rows of a sample.
  constexpr std::int64_t count() const { return runs_[0].count + runs_[1].count; }
  /// The position of a row of a sample. Row i of a tensor has position at(i % count()).
  constexpr std::int64_t at(std::int64_t row) const {
    const std::int64_t behind = row - runs_[0].count;
    return behind < 0 ? runs_[0].first + row : runs_[1].first + behind;
  }
  /// The row of a sample that has a position.
  std::int64_t row_of(std::int64_t position) const {
    const std::int64_t behind = position - runs_[1].first;
    return runs_[1].count > 0 && behind >= 0 ? runs_[0].count + behind : position - runs_[0].first;
  }
  /// One more than the last position.
  std::int64_t end() const { return runs_[1].count > 0 ? runs_[1].end() : runs_[0].end(); }
  /// The positions of rows [first, first + count) of a sample.
  Positions part(std::int64_t first, std::int64_t count) const {
    ensure(first >= 0 && count >= 0 && first + count <= this->count(), "a part lies among the rows");
    const std::int64_t in_front = std::clamp<std::int64_t>(runs_[0].count - first, 0, count);
    if (in_front == 0) return {at(first), count};
    return {{at(first), in_front}, {runs_[1].first, count - in_front}};
  }
  /// Both runs in order; either may be empty.
  std::span<const PositionRun> runs() const { return runs_; }

 private:
  std::array<PositionRun, 2> runs_{};
};

/// Points at the document start of position `first` of a sample; the starts of later positions follow. Null: a sample is one
/// document.
inline const std::int32_t* starts_from(const Tensor& starts, std::int64_t sample, std::int64_t first) {
  return starts ? reinterpret_cast<const std::int32_t*>(starts.data) + sample * starts.stride() + first : nullptr;
}

/// Sets window_starts to the first position that each position sees where queries see a window alone (Beltagy et al. 2020). A
/// query sees its own key and window - 1 before it, but none before its document. Samples have `positions` positions. `starts`
/// are those of documents; empty: a sample is one document.
inline void find_window_starts(std::span<std::int32_t> window_starts, std::span<const std::int32_t> starts,
                               std::int64_t positions, std::int64_t window) {
  for (std::size_t i = 0; i < window_starts.size(); ++i) {
    const auto begin = static_cast<std::int32_t>(static_cast<std::int64_t>(i) % positions - window + 1);
    window_starts[i] = std::max(begin, starts.empty() ? 0 : starts[i]);
  }
}

/// The position of row `row` of a tensor in its document.
inline std::int64_t place_of(const Positions& positions, const Tensor& starts, std::int64_t row) {
  const std::int64_t position = positions.at(row % positions.count());
  return starts ? position - *starts_from(starts, row / positions.count(), position) : position;
}

}  // namespace lockstep::ops
