#include "parallel/context/split_positions.h"

#include <algorithm>
#include <utility>

#include "layout/range.h"

namespace lockstep::parallel {

ops::Positions split_positions(std::int64_t positions, int rank, int ranks) {
  if (ranks == 1) return {0, positions};
  const layout::Range front = layout::part_of(positions, rank, 2 * ranks);
  const layout::Range back = layout::part_of(positions, 2 * ranks - 1 - rank, 2 * ranks);
  return {{front.first, front.count}, {back.first, back.count}};
}

void split_all_positions(std::span<ops::Positions> parts, std::int64_t positions) {
  const int ranks = static_cast<int>(parts.size());
  for (int rank = 0; rank < ranks; ++rank) parts[static_cast<std::size_t>(rank)] = split_positions(positions, rank, ranks);
}

namespace {

std::vector<ops::Positions> parts_of(std::int64_t positions, int ranks) {
  std::vector<ops::Positions> parts(static_cast<std::size_t>(ranks));
  split_all_positions(parts, positions);
  return parts;
}

}  // namespace

void DocumentSplit::split(std::span<ops::Positions> by_rank, std::int64_t positions, std::span<const std::int32_t> starts) {
  ensure(2 * by_rank.size() == parts_.size(), "parts are dealt out to the ranks that they were counted for");
  split_all_positions(by_rank, positions);
  const auto count = std::ssize(parts_);
  if (positions % count != 0) return;
  const std::int64_t each = positions / count;
  for (std::int64_t p = 0; p < count; ++p) {
    Part& part = parts_[static_cast<std::size_t>(p)];
    part = {p * each, 0};
    for (std::int64_t row = part.first; row < std::ssize(starts); row += positions) {
      for (std::int64_t i = 0; i < each; ++i) part.keys += part.first + i + 1 - starts[static_cast<std::size_t>(row + i)];
    }
  }
  std::ranges::sort(parts_, [](const Part& a, const Part& b) { return a.keys != b.keys ? a.keys > b.keys : a.first > b.first; });
  for (std::size_t rank = 0; rank < by_rank.size(); ++rank) {
    const auto [front, back] = std::minmax({parts_[rank].first, parts_[parts_.size() - 1 - rank].first});
    by_rank[rank] = {{front, each}, {back, each}};
  }
}

bool splits_by_documents(layout::ContextMethod method) {
  return method == layout::ContextMethod::allgather || method == layout::ContextMethod::ring;
}

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

void SplitAttention::take_parts(const AttentionCall& call) {
  now_ = call.parts.empty() ? std::span<const ops::Positions>(parts_) : call.parts;
  ensure(now_.size() == parts_.size(), "every rank has its positions");
  for (std::size_t rank = 0; rank < parts_.size(); ++rank)
    ensure(now_[rank].count() == parts_[rank].count(), "memory was declared for as many positions of each rank");
  const ops::Positions& own = positions_of(rank_);
  ensure(call.positions.count() == own.count() && call.positions.at(0) == own.at(0) && call.positions.end() == own.end(),
         "a rank attends with its own positions of whole samples");
  ensure(group_ != nullptr, "ranks that divide positions are connected");
}

}  // namespace lockstep::parallel
