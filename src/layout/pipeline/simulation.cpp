#include "layout/pipeline/simulation.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "layout/pipeline/lives.h"

namespace lockstep::layout {
namespace {

using Kind = Action::Kind;

bool is_pass(Kind kind) { return kind <= Kind::weight_backward; }

/// A pass by what it makes: other passes name what they need so.
struct Result {
  Stream stream;  ///< forward, input_backward or weight_backward
  int stage, microbatch;
};

class Simulation {
 public:
  Simulation(const std::vector<std::vector<Action>>& actions, const StageMap& map, const std::vector<PassSeconds>& stages)
      : actions_(actions), map_(map), stages_(stages), next_(actions.size()), free_(actions.size()) {
    ensure(static_cast<int>(stages.size()) == map.stages(), "every stage's passes have their seconds");
    timeline_.ranks.resize(actions.size());
    for (const std::vector<Action>& list : actions) {
      for (const Action& action : list) microbatches_ = std::max(microbatches_, action.microbatch.value + 1);
    }
    done_.resize(std::size_t{3} * stages.size() * static_cast<std::size_t>(microbatches_));
  }

  Timeline run() {
    for (bool moved = true; moved;) {
      moved = false;
      for (std::size_t rank = 0; rank < actions_.size(); ++rank) {
        while (step(rank)) moved = true;
      }
    }
    for (std::size_t rank = 0; rank < actions_.size(); ++rank) {
      if (next_[rank] < actions_[rank].size()) explain(rank);
    }
    return std::move(timeline_);
  }

 private:
  int stage_of(std::size_t rank, const Action& action) const {
    return map_.stages_of(static_cast<int>(rank))[static_cast<std::size_t>(action.chunk)];
  }
  std::vector<Result> needs(std::size_t rank, const Action& action) const {
    const int stage = stage_of(rank, action), m = action.microbatch.value;
    std::vector<Result> needed;
    if (action.kind == Kind::forward) {
      if (stage > 0) needed.push_back({Stream::forward, stage - 1, m});
    } else if (action.kind == Kind::weight_backward) {
      needed.push_back({Stream::input_backward, stage, m});
    } else {
      needed.push_back({Stream::forward, stage, m});
      if (stage + 1 < map_.stages()) needed.push_back({Stream::input_backward, stage + 1, m});
    }
    return needed;
  }
  std::size_t place(const Result& result) const {
    const auto stage = static_cast<std::size_t>(result.stage), microbatches = static_cast<std::size_t>(microbatches_);
    return (static_cast<std::size_t>(result.stream) * stages_.size() + stage) * microbatches +
           static_cast<std::size_t>(result.microbatch);
  }
  const PassSeconds& seconds_of(int stage) const { return stages_[static_cast<std::size_t>(stage)]; }
  double duration(std::size_t rank, const Action& action) const {
    const PassSeconds& seconds = seconds_of(stage_of(rank, action));
    if (action.kind == Kind::forward) return seconds.forward;
    if (action.kind == Kind::input_backward) return seconds.input_backward;
    if (action.kind == Kind::weight_backward) return seconds.weight_backward;
    return seconds.input_backward + seconds.weight_backward;
  }
  /// When what the pass needs is there; nothing: it is not known yet.
  std::optional<double> ready(std::size_t rank, const Action& action) const {
    double time = free_[rank];
    for (const Result& needed : needs(rank, action)) {
      const std::optional<double>& made = done_[place(needed)];
      if (!made) return std::nullopt;
      const bool sent = map_.rank_of(needed.stage) != static_cast<int>(rank);
      time = std::max(time, *made + (sent ? seconds_of(needed.stage).message : 0));
    }
    return time;
  }
  bool step(std::size_t rank) {
    if (next_[rank] == actions_[rank].size()) return false;
    const Action& action = actions_[rank][next_[rank]];
    if (is_pass(action.kind)) {
      const std::optional<double> start = ready(rank, action);
      if (!start) return false;
      const double end = *start + duration(rank, action);
      timeline_.ranks[rank].push_back({action, *start, end});
      free_[rank] = end;
      timeline_.makespan = std::max(timeline_.makespan, end);
      for (const Stream stream : {Stream::forward, Stream::input_backward, Stream::weight_backward}) {
        if (belongs(action.kind, stream)) done_[place({stream, stage_of(rank, action), action.microbatch.value})] = end;
      }
    }
    ++next_[rank];
    return true;
  }
  void explain(std::size_t rank) {
    const Action& action = actions_[rank][next_[rank]];
    for (const Result& needed : needs(rank, action)) {
      if (done_[place(needed)]) continue;
      timeline_.deadlock.push_back(fmt::format("rank {}: {} waits for {} of micro-batch {} in stage {} (rank {})", rank,
                                               to_string(action), name_of(needed.stream), needed.microbatch, needed.stage,
                                               map_.rank_of(needed.stage)));
    }
  }

  const std::vector<std::vector<Action>>& actions_;
  const StageMap& map_;
  const std::vector<PassSeconds>& stages_;
  std::vector<std::size_t> next_;
  std::vector<double> free_;
  int microbatches_ = 0;
  std::vector<std::optional<double>> done_;  ///< when each result is there
  Timeline timeline_;
};

}  // namespace

Timeline simulate(const std::vector<std::vector<Action>>& actions, const StageMap& map, const PassSeconds& seconds) {
  std::vector<PassSeconds> stages(static_cast<std::size_t>(map.stages()), seconds);
  for (int stage = 0; stage < map.stages(); ++stage) {
    const auto chunks = static_cast<double>(map.stages_of(map.rank_of(stage)).size());
    PassSeconds& own = stages[static_cast<std::size_t>(stage)];
    for (double* share : {&own.forward, &own.input_backward, &own.weight_backward}) *share /= chunks;
  }
  return simulate(actions, map, stages);
}

Timeline simulate(const std::vector<std::vector<Action>>& actions, const StageMap& map, const std::vector<PassSeconds>& stages) {
  return Simulation(actions, map, stages).run();
}

double bubble(const Timeline& timeline) {
  double waiting = 0;
  for (int rank = 0; rank < std::ssize(timeline.ranks); ++rank) waiting += bubble(timeline, rank);
  return timeline.ranks.empty() ? 0 : waiting / static_cast<double>(timeline.ranks.size());
}

double bubble(const Timeline& timeline, int rank) {
  double busy = 0;
  for (const TimedPass& pass : timeline.ranks[static_cast<std::size_t>(rank)]) busy += pass.end - pass.start;
  return timeline.makespan > 0 ? 1 - busy / timeline.makespan : 0;
}

double peak_activations(const std::vector<Action>& actions, int chunks) {
  int kept = 0, most = 0;
  for (const Action& action : actions) {
    if (action.kind == Kind::forward) most = std::max(most, ++kept);
    if (belongs(action.kind, Stream::weight_backward)) --kept;
  }
  return static_cast<double>(most) / chunks;
}

int messages_sent(const std::vector<Action>& actions) {
  return static_cast<int>(std::ranges::count_if(
      actions, [](const Action& action) { return action.kind == Kind::send_output || action.kind == Kind::send_gradient; }));
}

}  // namespace lockstep::layout
