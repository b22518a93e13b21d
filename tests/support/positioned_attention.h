#pragma once

// A rank that has some positions of every sample, as the tests' ways of attending together share it.

#include <vector>

#include "comm/communicator.h"
#include "parallel/boundary.h"
#include "parallel/context_attention.h"

namespace lockstep::support {

/// Where each rank's positions lie.
using Cut = std::vector<ops::Positions>;

inline float* floats_of(const Tensor& x, std::int64_t row, std::int64_t column = 0) {
  return reinterpret_cast<float*>(x.data) + row * x.stride() + column;
}

/// A rank among those that have the positions of `grid` as `cut` says.
class Positioned : public parallel::ContextAttention {
 public:
  Positioned(const parallel::TokenGrid& grid, const Cut& cut, int rank) : grid_(grid), cut_(cut), rank_(rank) {}
  void connect(comm::Communicator& group) { group_ = &group; }

 protected:
  int ranks() const { return static_cast<int>(cut_.size()); }
  std::int64_t rows_of(int rank) const { return grid_.samples * cut_[static_cast<std::size_t>(rank)].count(); }
  /// The number, among all positions' rows, of row `row` of a rank's own.
  std::int64_t place(int rank, std::int64_t row) const {
    const ops::Positions& positions = cut_[static_cast<std::size_t>(rank)];
    return row / positions.count() * grid_.positions + positions.at(row % positions.count());
  }

  parallel::TokenGrid grid_;
  Cut cut_;
  int rank_;
  comm::Communicator* group_ = nullptr;
};

}  // namespace lockstep::support
