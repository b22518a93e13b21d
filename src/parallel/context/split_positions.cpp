#include "parallel/context/split_positions.h"

#include "layout/range.h"

namespace lockstep::parallel {

ops::Positions split_positions(std::int64_t positions, int rank, int ranks) {
  if (ranks == 1) return {0, positions};
  const layout::Range front = layout::part_of(positions, rank, 2 * ranks);
  const layout::Range back = layout::part_of(positions, 2 * ranks - 1 - rank, 2 * ranks);
  return {{front.first, front.count}, {back.first, back.count}};
}

void SplitAttention::demand_own(const AttentionCall& call) const {
  const ops::Positions own = positions_of(rank_);
  ensure(call.positions.count() == own.count() && call.positions.end() == own.end(),
         "a rank attends with its own positions of whole samples");
  ensure(group_ != nullptr, "ranks that divide positions are connected");
}

}  // namespace lockstep::parallel
