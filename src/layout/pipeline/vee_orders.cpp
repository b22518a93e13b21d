// Orders of passes for two chunks a rank in a V.

#include <algorithm>
#include <array>
#include <limits>
#include <optional>

#include "layout/pipeline/orders.h"

namespace lockstep::layout {
namespace {

using Kind = Action::Kind;

/// A V of stages on which every rank, at each tick of a clock, takes one pass of those that are ready. Every pass takes a tick.
/// Input backward comes first, since other ranks wait for it. Forward comes next, the later stage first, since it leads to the
/// loss. A rank takes it only while it keeps fewer than `room_` micro-batches of its chunks. Weight gradients come last.
class Clock {
 public:
  explicit Clock(const PipelineShape& shape)
      : shape_(shape), map_(StageMap::vee(shape.ranks)), room_(2 * shape.ranks), progress_(stages()), kept_(ranks()) {
    const std::vector<int> never(static_cast<std::size_t>(shape.microbatches), std::numeric_limits<int>::max());
    for (Progress& stage : progress_) stage.forward_at = stage.backward_at = never;
  }

  RankPasses run() {
    RankPasses passes(ranks());
    const int all = 3 * map_.stages() * shape_.microbatches;
    for (int now = 0, done = 0; done < all; ++now) {
      std::vector<StagePass> taken;
      for (int rank = 0; rank < shape_.ranks; ++rank) {
        if (const auto pass = choose(rank, now)) {
          passes[static_cast<std::size_t>(rank)].push_back(*pass);
          taken.push_back(*pass);
        }
      }
      ensure(!taken.empty(), "some rank of a V can always go on");
      for (const StagePass& pass : taken) finish(pass, now + 1);
      done += static_cast<int>(taken.size());
    }
    return passes;
  }

 private:
  struct Progress {
    int forward = 0, backward = 0, weights = 0;  ///< micro-batches done
    std::vector<int> forward_at, backward_at;    ///< when each one's result is there
  };
  std::size_t ranks() const { return static_cast<std::size_t>(shape_.ranks); }
  std::size_t stages() const { return static_cast<std::size_t>(map_.stages()); }
  const Progress& at(int stage) const { return progress_[static_cast<std::size_t>(stage)]; }
  static int time_of(const std::vector<int>& times, int m) { return times[static_cast<std::size_t>(m)]; }
  bool can_go_back(int stage, int now) const {
    const Progress& own = at(stage);
    if (own.backward == own.forward || time_of(own.forward_at, own.backward) > now) return false;
    return stage == map_.stages() - 1 || time_of(at(stage + 1).backward_at, own.backward) <= now;
  }
  bool can_go_forward(int rank, int stage, int now) const {
    const Progress& own = at(stage);
    if (own.forward == shape_.microbatches || kept_[static_cast<std::size_t>(rank)] >= room_) return false;
    return stage == 0 || time_of(at(stage - 1).forward_at, own.forward) <= now;
  }
  std::optional<StagePass> choose(int rank, int now) const {
    const std::array<int, 2> own{map_.stages_of(rank)[1], map_.stages_of(rank)[0]};
    std::optional<StagePass> backward;
    for (const int stage : own) {
      if (can_go_back(stage, now) && (!backward || at(stage).backward < backward->microbatch)) {
        backward = StagePass{Kind::input_backward, stage, at(stage).backward};
      }
    }
    if (backward) return backward;
    for (const int stage : own) {
      if (can_go_forward(rank, stage, now)) return StagePass{Kind::forward, stage, at(stage).forward};
    }
    for (const int stage : own) {
      if (at(stage).weights < at(stage).backward) return StagePass{Kind::weight_backward, stage, at(stage).weights};
    }
    return std::nullopt;
  }
  void finish(const StagePass& pass, int time) {
    Progress& stage = progress_[static_cast<std::size_t>(pass.stage)];
    int& kept = kept_[static_cast<std::size_t>(map_.rank_of(pass.stage))];
    const auto m = static_cast<std::size_t>(pass.microbatch);
    if (pass.kind == Kind::forward) {
      stage.forward_at[m] = time;
      ++stage.forward;
      ++kept;
    } else if (pass.kind == Kind::input_backward) {
      stage.backward_at[m] = time;
      ++stage.backward;
    } else {
      ++stage.weights;
      --kept;
    }
  }

  PipelineShape shape_;
  StageMap map_;
  int room_;
  std::vector<Progress> progress_;  ///< by stage
  std::vector<int> kept_;           ///< by rank: chunks' micro-batches
};

/// One rank's passes in the manner of DualPipe: what is next of each chunk, and weight gradients that are owed.
class Sides {
 public:
  Sides(const PipelineShape& shape, int rank) : stages_{rank, 2 * shape.ranks - 1 - rank} {}
  void forward(int chunk) { add(Kind::forward, chunk, forward_[static_cast<std::size_t>(chunk)]++); }
  void backward(int chunk) { add(Kind::backward, chunk, backward_[static_cast<std::size_t>(chunk)]++); }
  void input_backward(int chunk) {
    const int m = backward_[static_cast<std::size_t>(chunk)]++;
    add(Kind::input_backward, chunk, m);
    owed_.push_back({Kind::weight_backward, stages_[static_cast<std::size_t>(chunk)], m});
  }
  void weights() { passes_.push_back(owed_[paid_++]); }
  std::vector<StagePass> take() { return std::move(passes_); }

 private:
  void add(Kind kind, int chunk, int m) { passes_.push_back({kind, stages_[static_cast<std::size_t>(chunk)], m}); }
  std::array<int, 2> stages_, forward_{}, backward_{};
  std::vector<StagePass> passes_, owed_;
  std::size_t paid_ = 0;
};

void repeat(int times, const auto& body) {
  for (int i = 0; i < times; ++i) body();
}

/// The end of a rank's list: the last backward passes, from some point on with their weight gradients owed.
void drain(Sides& sides, int rank) {
  const int rounds = rank + 1, half = rounds / 2;
  bool owe = false;
  const auto backward = [&](int chunk) { owe ? sides.input_backward(chunk) : sides.backward(chunk); };
  for (int i = 0; i < rounds; ++i) {
    if (i == half && rank % 2 == 1) owe = true;
    backward(1);
    if (i == half && rank % 2 == 0) owe = true;
    backward(0);
  }
}

}  // namespace

RankPasses zero_bubble_v(const PipelineShape& shape) { return Clock(shape).run(); }

RankPasses dualpipe_v(const PipelineShape& shape) {
  RankPasses all;
  for (int rank = 0; rank < shape.ranks; ++rank) {
    Sides sides(shape, rank);
    const int behind = shape.ranks - 1 - rank;
    repeat(2 * behind, [&] { sides.forward(0); });
    repeat(rank + 1, [&] {
      sides.forward(0);
      sides.forward(1);
    });
    repeat(behind, [&] {
      sides.input_backward(1);
      sides.weights();
      sides.forward(1);
    });
    repeat(shape.microbatches - 2 * shape.ranks + rank + 1, [&] {
      sides.forward(0);
      sides.backward(1);
      sides.forward(1);
      sides.backward(0);
    });
    repeat(behind, [&] {
      sides.backward(1);
      sides.forward(1);
      sides.backward(0);
    });
    drain(sides, rank);
    repeat(behind, [&] {
      sides.weights();
      sides.input_backward(0);
    });
    repeat(rank + 1, [&] { sides.weights(); });
    all.push_back(sides.take());
  }
  return all;
}

}  // namespace lockstep::layout
