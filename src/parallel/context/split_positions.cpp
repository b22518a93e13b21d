#include "parallel/context/split_positions.h"

#include <utility>

#include "layout/range.h"

namespace lockstep::parallel {

ops::Positions split_positions(std::int64_t positions, int rank, int ranks) {
  if (ranks == 1) return {0, positions};
  const layout::Range front = layout::part_of(positions, rank, 2 * ranks);
  const layout::Range back = layout::part_of(positions, 2 * ranks - 1 - rank, 2 * ranks);
  return {{front.first, front.count}, {back.first, back.count}};
}

namespace {

std::vector<ops::Positions> parts_of(std::int64_t positions, int ranks) {
  std::vector<ops::Positions> parts;
  for (int rank = 0; rank < ranks; ++rank) parts.push_back(split_positions(positions, rank, ranks));
  return parts;
}

}  // namespace

SplitAttention::SplitAttention(std::int64_t positions, int rank, int ranks)
    : SplitAttention(Share{positions, parts_of(positions, ranks), rank, split_positions(positions, rank, ranks)}) {}

SplitAttention::SplitAttention(Share share)
    : positions_(share.positions),
      rank_(share.rank),
      ranks_(static_cast<int>(share.parts.size())),
      parts_(std::move(share.parts)),
      own_(share.own) {}

void SplitAttention::demand_own(const AttentionCall& call) const {
  ensure(call.positions.count() == own_.count() && call.positions.end() == own_.end(),
         "a rank attends with its own positions of whole samples");
  ensure(group_ != nullptr, "ranks that divide positions are connected");
}

}  // namespace lockstep::parallel
