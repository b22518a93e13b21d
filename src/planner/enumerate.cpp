#include "planner/enumerate.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "arch/flops.h"
#include "layout/pipeline/schedules.h"
#include "layout/pipeline/split.h"

namespace lockstep::planner {
namespace {

/// Fewer positions than that on a rank, and context parallelism costs more than it saves anywhere.
constexpr std::int64_t kLeastPositions = 2048;
constexpr int kMostMicrobatches = 8192, kMostStages = 512, kMostSamples = 64;

class Enumerator {
 public:
  Enumerator(const SearchQuestion& question, const std::function<void(const Candidate&)>& take)
      : question_(question), work_(question.work), take_(take) {
    candidate_.plan.ranks_per_host = static_cast<int>(work_.machine.devices);
  }

  void degrees() {
    const std::int64_t ranks = work_.machine.ranks();
    layout::ParallelPlan& plan = candidate_.plan;
    for (std::int64_t tp = 1; tp <= std::min(work_.machine.devices, work_.model.heads); ++tp) {
      if (work_.machine.devices % tp != 0) continue;
      plan.tp = static_cast<int>(tp);
      for (std::int64_t cp = 1; cp == 1 || (work_.positions / cp >= kLeastPositions && tp * cp <= ranks); cp *= 2) {
        plan.cp = static_cast<int>(cp);
        for (std::int64_t pp = 1; pp <= std::min<std::int64_t>(work_.model.layers, kMostStages); ++pp) {
          if (ranks % (tp * cp * pp) != 0) continue;
          plan.pp = static_cast<int>(pp);
          plan.dp = static_cast<int>(ranks / (tp * cp * pp));
          if (question_.global_batch % plan.dp == 0) microbatches();
        }
      }
    }
  }

 private:
  void microbatches() {
    const std::int64_t own = question_.global_batch / candidate_.plan.dp;
    for (std::int64_t samples = 1; samples <= std::min<std::int64_t>(own, kMostSamples); samples *= 2) {
      if (own % samples != 0 || own / samples > kMostMicrobatches) continue;
      candidate_.samples = samples;
      candidate_.plan.microbatches = static_cast<int>(own / samples);
      schedules();
    }
  }

  void schedules() {
    layout::ParallelPlan& plan = candidate_.plan;
    if (plan.pp == 1) {
      plan.schedule = "1f1b";
      plan.chunks = 1;
      plan.split.clear();
      return places();
    }
    for (const layout::NamedSchedule& schedule : layout::schedules()) {
      for (const int chunks : {1, 2, 3, 4, 6, 8}) {
        const layout::PipelineShape shape{.ranks = plan.pp, .chunks = chunks, .microbatches = plan.microbatches};
        if (std::int64_t{plan.pp} * chunks > work_.model.layers || !check(schedule, shape).empty()) continue;
        plan.schedule = schedule.name;
        plan.chunks = chunks;
        plan.split = split(schedule, shape);
        places();
      }
    }
  }

  const std::vector<std::int64_t>& split(const layout::NamedSchedule& schedule, const layout::PipelineShape& shape) {
    const bool vee = schedule.chunks == layout::NamedSchedule::Chunks::vee;
    std::vector<std::int64_t>& found = splits_[{vee, shape.ranks, shape.chunks}];
    if (found.empty()) {
      found = layout::balanced_split(stage_map(schedule, shape), work_.model.layers,
                                     arch::part_flops_per_token(work_.model, work_.positions));
    }
    return found;
  }

  void places() {
    layout::ParallelPlan& plan = candidate_.plan;
    const int replicas = plan.dp * plan.cp;
    for (int zero = 0; zero <= (replicas == 1 ? 0 : 3); ++zero) {
      for (const layout::Tier optimizer : {layout::Tier::device, layout::Tier::host, layout::Tier::disk}) {
        for (const layout::Tier weights : {layout::Tier::device, layout::Tier::host, layout::Tier::disk}) {
          if (!has(optimizer) || !has(weights)) continue;
          const bool passes = zero == 3 || replicas == 1;  // weights elsewhere belong to one rank each
          if (weights != layout::Tier::device && (!passes || optimizer != weights)) continue;
          plan.parameters = plan.gradients = plan.optimizer = {};
          layout::set_zero_level(plan, zero);
          plan.optimizer.tier = optimizer;
          plan.parameters.tier = weights;
          tiles();
        }
      }
    }
  }
  bool has(layout::Tier tier) const {
    const Machine& machine = work_.machine;
    return tier == layout::Tier::device ||
           (tier == layout::Tier::host ? machine.host_memory > 0 && machine.host_rate > 0 : machine.disk_rate > 0);
  }

  void tiles() {
    layout::ParallelPlan& plan = candidate_.plan;
    const bool leased = plan.parameters.cut != layout::CutOver::none || plan.parameters.tier != layout::Tier::device;
    for (const layout::Tiles& tiles : {layout::Tiles{}, layout::Tiles{.in = 1, .out = 4}}) {
      if (tiles.cut() && !leased) continue;
      plan.tiles = tiles;
      for (const bool sequence : {false, true}) {
        if (sequence && plan.tp == 1) continue;
        plan.sequence = sequence;
        for (const auto kind :
             {layout::Recompute::Kind::none, layout::Recompute::Kind::selective, layout::Recompute::Kind::full}) {
          plan.recompute = {kind, 1};
          take_(candidate_);
        }
      }
    }
  }

  const SearchQuestion& question_;
  const Work& work_;
  const std::function<void(const Candidate&)>& take_;
  Candidate candidate_;
  std::map<std::tuple<bool, int, int>, std::vector<std::int64_t>> splits_;  ///< of vee or not, ranks, chunks
};

}  // namespace

void enumerate(const SearchQuestion& question, const std::function<void(const Candidate&)>& take) {
  Enumerator(question, take).degrees();
}

}  // namespace lockstep::planner
