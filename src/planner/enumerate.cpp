#include "planner/enumerate.h"

#include <algorithm>
#include <bit>
#include <map>
#include <tuple>

#include "arch/flops.h"
#include "layout/pipeline/schedules.h"
#include "layout/pipeline/split.h"
#include "planner/memory.h"

namespace lockstep::planner {
namespace {

/// Fewer positions than that on a rank, and context parallelism costs more than it saves anywhere.
constexpr std::int64_t kLeastPositions = 2048;
constexpr int kMostMicrobatches = 8192, kMostStages = 512, kMostSamples = 64;
/// Where a rank's samples have more divisors than that, those between powers of two tell nothing new.
constexpr std::size_t kFewDivisors = 6;
/// A layout that is estimated at less of a device's memory fits: estimates are at least so much of what is declared.
constexpr double kLeastEstimate = 0.4;

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
      if (work_.machine.devices % tp != 0 || !divides_heads(tp)) continue;
      plan.tp = static_cast<int>(tp);
      for (std::int64_t cp = 1; cp == 1 || (work_.positions / cp >= kLeastPositions && tp * cp <= ranks); cp *= 2) {
        plan.cp = static_cast<int>(cp);
        for (std::int64_t pp = 1; pp <= std::min<std::int64_t>(work_.model.layers, kMostStages); ++pp) {
          if (ranks % (tp * cp * pp) != 0) continue;
          plan.pp = static_cast<int>(pp);
          plan.dp = static_cast<int>(ranks / (tp * cp * pp));
          if (question_.global_batch % plan.dp == 0) methods();
        }
      }
    }
  }

 private:
  /// Methods of context parallelism. Every rank that exchanges positions gets a head. `ulysses+ring` is left out where the ranks
  /// lie on one node, or each on a node of its own: it is `ulysses` or `ring` there.
  void methods() {
    using layout::ContextMethod;
    layout::ParallelPlan& plan = candidate_.plan;
    for (const ContextMethod method :
         {ContextMethod::allgather, ContextMethod::ulysses, ContextMethod::ring, ContextMethod::ulysses_ring}) {
      plan.context = method;
      const int nodes = layout::context_hosts(plan),
                exchanging = method == ContextMethod::ulysses ? plan.cp : plan.cp / std::max(1, nodes);
      const bool exchanges = method == ContextMethod::ulysses || method == ContextMethod::ulysses_ring;
      if (plan.cp == 1 && method != ContextMethod::allgather) break;
      if (exchanges && exchanging > work_.model.heads / plan.tp) continue;
      if (method == ContextMethod::ulysses_ring && (nodes <= 1 || nodes == plan.cp)) continue;
      microbatches();
    }
  }

  void microbatches() {
    const std::int64_t own = question_.global_batch / candidate_.plan.dp;
    for (const std::int64_t samples : sizes(own)) {
      if (own / samples > kMostMicrobatches) continue;
      candidate_.samples = samples;
      candidate_.plan.microbatches = static_cast<int>(own / samples);
      schedules();
    }
  }

  /// Samples of a micro-batch that are tried: all divisors of a rank's own samples where these are few, else powers of two and
  /// all.
  const std::vector<std::int64_t>& sizes(std::int64_t own) {
    std::vector<std::int64_t>& found = sizes_[own];
    if (!found.empty()) return found;
    std::vector<std::int64_t> powers;
    for (std::int64_t samples = 1; samples <= std::min<std::int64_t>(own, kMostSamples); ++samples) {
      if (own % samples != 0) continue;
      found.push_back(samples);
      if (std::has_single_bit(static_cast<std::uint64_t>(samples))) powers.push_back(samples);
    }
    if (found.size() > kFewDivisors) found = powers;
    if (found.back() != own) found.push_back(own);
    return found;
  }

  void schedules() {
    layout::ParallelPlan& plan = candidate_.plan;
    if (plan.pp == 1) {
      plan.schedule = "1f1b";
      plan.chunks = 1;
      plan.split.clear();
      return recomputed();
    }
    for (const layout::NamedSchedule& schedule : layout::schedules()) {
      for (const int chunks : {1, 2, 3, 4, 6, 8}) {
        const layout::PipelineShape shape{.ranks = plan.pp, .chunks = chunks, .microbatches = plan.microbatches};
        if (std::int64_t{plan.pp} * chunks > work_.model.layers || !check(schedule, shape).empty()) continue;
        plan.schedule = schedule.name;
        plan.chunks = chunks;
        plan.split = split(schedule, shape);
        recomputed();
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

  /// Finds what each candidate's blocks may recompute.
  void recomputed() {
    using Kind = layout::Recompute::Kind;
    layout::ParallelPlan& plan = candidate_.plan;
    moves_ = plan.pp == 1 || !makes_weights_later();
    for (const bool sequence : {false, true}) {
      if (sequence && plan.tp == 1) continue;
      plan.sequence = sequence;
      again_ = {{Kind::none, 1}, {Kind::selective, 1}, {Kind::full, 1}};
      for (const int every : together()) again_.push_back({Kind::full, every});
      places();
    }
  }

  bool makes_weights_later() {
    const auto [found, fresh] = later_.try_emplace(candidate_.plan.schedule, false);
    if (fresh) found->second = layout::makes_weights_later(candidate_.plan);
    return found->second;
  }

  /// Blocks that may be run again together. A rank with the whole model does not run the last of them again: of each number of
  /// groups the fewest blocks a group. In a pipeline that takes longer than one block at a time, and only the number that keeps
  /// least may fit where one does not.
  std::vector<int> together() {
    layout::ParallelPlan& plan = candidate_.plan;
    const auto blocks = static_cast<int>(work_.model.layers / plan.stages());
    std::vector<int> found;
    if (plan.pp == 1) {
      for (const int groups : {2, 3, 4, 6, 8, 12, 16}) {
        const int every = (blocks + groups - 1) / groups;
        if (every > 1 && every < blocks && (found.empty() || every < found.back())) found.push_back(every);
      }
      return found;
    }
    int best = 1;
    double least = 0;
    for (int every = 1; every <= blocks; ++every) {
      plan.recompute = {layout::Recompute::Kind::full, every};
      const double bytes = estimated_bytes(work_, candidate_);
      if (every > 1 && bytes >= least) continue;
      least = bytes;
      best = every;
    }
    if (best > 1) found.push_back(best);
    return found;
  }

  void places() {
    const int replicas = candidate_.plan.dp * candidate_.plan.cp;
    for (int zero = 0; zero <= (replicas == 1 ? 0 : 3); ++zero) {
      tiers(zero, layout::CutOver::all);
      if (zero == 3 && divides_nodes()) tiers(zero, layout::CutOver::host);
    }
  }
  /// Tries the places where the state of a ZeRO level may lie.
  void tiers(int zero, layout::CutOver over) {
    layout::ParallelPlan& plan = candidate_.plan;
    const bool passes = zero == 3 || plan.dp * plan.cp == 1;  // weights elsewhere belong to one rank each
    for (const layout::Tier optimizer : {layout::Tier::device, layout::Tier::host, layout::Tier::disk}) {
      for (const layout::Tier weights : {layout::Tier::device, layout::Tier::host, layout::Tier::disk}) {
        if (!has(optimizer) || !has(weights)) continue;
        if (weights != layout::Tier::device && (!passes || optimizer != weights)) continue;
        plan.parameters = plan.gradients = plan.optimizer = {};
        layout::set_zero_level(plan, zero, over);
        plan.optimizer.tier = optimizer;
        plan.parameters.tier = weights;
        reductions(zero >= 2);
      }
    }
  }
  /// When cut gradients are reduced: other systems do as they do, this program may do so in every micro-batch (other bits).
  void reductions(bool cut) {
    layout::ParallelPlan& plan = candidate_.plan;
    const bool own = is_own(work_.system);
    const bool each = cut && (own ? plan.microbatches > 1 : work_.system.reduces_microbatches);
    plan.reduce = layout::ReduceEvery::step;
    if (own || !each) tiles();
    plan.reduce = layout::ReduceEvery::microbatch;
    if (each) tiles();
  }
  /// Whether `tp` ranks can divide the attention. Other systems than ours give each as many heads. Heads of keys are divided
  /// as evenly, or several ranks have the same one.
  bool divides_heads(std::int64_t tp) const {
    const arch::ModelConfig& model = work_.model;
    const bool even = model.heads % tp == 0 && (model.kv_heads % tp == 0 || tp % model.kv_heads == 0);
    return even || is_own(work_.system);
  }
  /// Whether state cut inside nodes is another layout than state cut over all ranks: each of several nodes has some of them. Only
  /// weights are worth that, for every pass gathers them. Below ZeRO-3 gradients are summed for all where parts would do: that
  /// takes longer than gathering new weights once a step, and more memory.
  bool divides_nodes() const {
    const layout::ParallelPlan& plan = candidate_.plan;
    const int together = plan.dp * plan.cp * plan.tp, node = plan.ranks_per_host;
    return together > node && together % node == 0 && node > plan.tp;
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
      activations();
    }
  }

  /// Offloaded activations only cost time, as does recomputing several blocks together in place of one. They are tried only where
  /// the layout without them may not fit. Such groups of blocks keep little already, which is not offloaded.
  void activations() {
    layout::ParallelPlan& plan = candidate_.plan;
    for (const layout::Recompute& recompute : again_) {
      plan.recompute = recompute;
      plan.activations = layout::Tier::device;
      take_(candidate_);
      if (!moves_ || recompute.every > 1) continue;
      if (estimated_bytes(work_, candidate_) < kLeastEstimate * work_.machine.usable_memory()) continue;
      for (const layout::Tier tier : {layout::Tier::host, layout::Tier::disk}) {
        if (!has(tier)) continue;
        plan.activations = tier;
        take_(candidate_);
      }
      plan.activations = layout::Tier::device;
    }
  }

  const SearchQuestion& question_;
  const Work& work_;
  const std::function<void(const Candidate&)>& take_;
  Candidate candidate_;
  std::vector<layout::Recompute> again_;
  std::map<std::int64_t, std::vector<std::int64_t>> sizes_;                 ///< of micro-batches, by a rank's samples
  bool moves_ = false;                                                      ///< activations may lie elsewhere
  std::map<std::tuple<bool, int, int>, std::vector<std::int64_t>> splits_;  ///< of vee or not, ranks, chunks
  std::map<std::string, bool> later_;                                       ///< schedules that make weight gradients later
};

}  // namespace

void enumerate(const SearchQuestion& question, const std::function<void(const Candidate&)>& take) {
  Enumerator(question, take).degrees();
}

}  // namespace lockstep::planner
