#include "layout/pipeline/orders.h"

#include <algorithm>

#include "layout/range.h"

namespace lockstep::layout {
namespace {

using Kind = Action::Kind;

/// One rank's list for each rank.
template <class Write>
RankPasses for_each_rank(const PipelineShape& shape, const Write& write) {
  RankPasses all(static_cast<std::size_t>(shape.ranks));
  for (int rank = 0; rank < shape.ranks; ++rank) write(rank, all[static_cast<std::size_t>(rank)]);
  return all;
}

/// `ahead` forward steps, then one forward and one backward until none is left. forward(i) and backward(i) write step i of
/// `steps`.
template <class Forward, class Backward>
void alternate(int steps, int ahead, const Forward& forward, const Backward& backward) {
  for (int i = 0; i < steps + ahead; ++i) {
    if (i < steps) forward(i);
    if (i >= ahead) backward(i - ahead);
  }
}

struct ChunkStep {
  int chunk, microbatch;
};

/// All chunks' steps in groups of micro-batches: chunk by chunk within a group. There are as many groups as micro-batches fill
/// with one for each rank, and they are as even as they can be.
class Groups {
 public:
  explicit Groups(const PipelineShape& shape) : chunks_(shape.chunks) {
    const int groups = std::max(1, shape.microbatches / shape.ranks);
    for (int g = 0; g < groups; ++g) groups_.push_back(part_of(shape.microbatches, g, groups));
  }
  int largest() const { return static_cast<int>(std::ranges::max(groups_, {}, &Range::count).count); }
  std::vector<ChunkStep> steps(bool back) const {
    std::vector<ChunkStep> steps;
    for (const Range& group : groups_) {
      for (int i = 0; i < chunks_; ++i) {
        for (std::int64_t m = group.first; m < group.end(); ++m) {
          steps.push_back({back ? chunks_ - 1 - i : i, static_cast<int>(m)});
        }
      }
    }
    return steps;
  }

 private:
  int chunks_;
  std::vector<Range> groups_;
};

}  // namespace

RankPasses gpipe(const PipelineShape& shape) { return breadth_first(shape); }

RankPasses one_forward_one_backward(const PipelineShape& shape) {
  return for_each_rank(shape, [&](int rank, std::vector<StagePass>& passes) {
    alternate(
        shape.microbatches, std::min(shape.ranks - 1 - rank, shape.microbatches),
        [&](int m) { passes.push_back({Kind::forward, rank, m}); }, [&](int m) { passes.push_back({Kind::backward, rank, m}); });
  });
}

RankPasses interleaved(const PipelineShape& shape) {
  const Groups groups(shape);
  const std::vector<ChunkStep> forward = groups.steps(false), backward = groups.steps(true);
  const int steps = shape.chunks * shape.microbatches;
  return for_each_rank(shape, [&](int rank, std::vector<StagePass>& passes) {
    const auto add = [&](Kind kind, const ChunkStep& step) {
      passes.push_back({kind, step.chunk * shape.ranks + rank, step.microbatch});
    };
    const int ahead = 2 * (shape.ranks - 1 - rank) + (shape.chunks - 1) * groups.largest();
    alternate(
        steps, std::min(ahead, steps), [&](int i) { add(Kind::forward, forward[static_cast<std::size_t>(i)]); },
        [&](int i) { add(Kind::backward, backward[static_cast<std::size_t>(i)]); });
  });
}

RankPasses breadth_first(const PipelineShape& shape) {
  return for_each_rank(shape, [&](int rank, std::vector<StagePass>& passes) {
    for (int c = 0; c < shape.chunks; ++c) {
      for (int m = 0; m < shape.microbatches; ++m) passes.push_back({Kind::forward, c * shape.ranks + rank, m});
    }
    for (int c = shape.chunks - 1; c >= 0; --c) {
      for (int m = 0; m < shape.microbatches; ++m) passes.push_back({Kind::backward, c * shape.ranks + rank, m});
    }
  });
}

// Rank r owes r micro-batches' weight gradients before it pays the first, and the rest at the end.
RankPasses zero_bubble_h1(const PipelineShape& shape) {
  return for_each_rank(shape, [&](int rank, std::vector<StagePass>& passes) {
    int paid = 0;
    alternate(
        shape.microbatches, std::min(shape.ranks - 1 - rank, shape.microbatches),
        [&](int m) { passes.push_back({Kind::forward, rank, m}); },
        [&](int m) {
          passes.push_back({Kind::input_backward, rank, m});
          if (m >= rank) passes.push_back({Kind::weight_backward, rank, paid++});
        });
    while (paid < shape.microbatches) passes.push_back({Kind::weight_backward, rank, paid++});
  });
}

}  // namespace lockstep::layout
