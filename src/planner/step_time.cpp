#include "planner/step_time.h"

#include <algorithm>
#include <numeric>
#include <tuple>

#include "arch/parameters.h"
#include "layout/pipeline/schedules.h"
#include "layout/pipeline/split.h"
#include "planner/activations.h"

namespace lockstep::planner {
namespace {

/// The machine as the system's kernels use it.
Machine used_by(const System& system, Machine machine) {
  for (double* share : {&machine.product_share, &machine.f32_share}) *share *= system.product_part;
  machine.attention_share *= system.attention_part;
  machine.joins_links = system.joins_links;
  return machine;
}

/// Parameters of a rank, as if all ranks of the model had as many.
double rank_parameters(const Work& work, const layout::ParallelPlan& plan) {
  return work.parameters / (static_cast<double>(plan.tp) * plan.pp);
}

/// Seconds of moving bytes between a device and `tier`, one way.
double transfer_seconds(double bytes, layout::Tier tier, const Machine& machine) {
  if (tier == layout::Tier::device) return 0;
  return tier == layout::Tier::host ? bytes / machine.host_rate
                                    : bytes * static_cast<double>(machine.devices) / machine.disk_rate;
}

/// Seconds on a rank's way from and to elsewhere, of one micro-batch: what its passes compute under, and what they do not.
struct Transfers {
  double forward = 0, backward = 0, bare = 0;
  Transfers operator*(double part) const { return {part * forward, part * backward, part * bare}; }
  Transfers operator+(const Transfers& other) const {
    return {forward + other.forward, backward + other.backward, bare + other.bare};
  }
};

/// The hops of a ring, for all blocks of a rank and what is beside them, which nothing hides.
double bare_seconds(const Work& work, const layout::ParallelPlan& plan, const Group& group) {
  return work.system.hop_seconds * (group.ranks - 1) * (static_cast<double>(work.model.layers) / plan.pp + 1);
}

/// Transfers that gather or bring the weights of all stages of a rank.
Transfers weight_transfers(const Work& work, const layout::ParallelPlan& plan) {
  const double bytes = work.system.element_bytes * rank_parameters(work, plan);
  const Group parts = state_group(plan, plan.parameters.cut, work.machine);
  const double once =
      gather_seconds(bytes, parts, work.machine) + transfer_seconds(bytes / parts.ranks, plan.parameters.tier, work.machine);
  const double bare = bare_seconds(work, plan, parts);
  if (!plan.reshard_after_forward) return {once / plan.microbatches, 0, bare / plan.microbatches};
  // Blocks that are run again together are leased once more, but for those that places still hold.
  const int every = plan.recompute.kind == layout::Recompute::Kind::full ? plan.recompute.every : 1;
  return {once, once * (1 + std::max(0.0, every - 1.0 - plan.prefetch) / every), 2 * bare};
}

/// Gradients are cut behind every micro-batch, while it goes backward.
bool reduces_microbatches(const layout::ParallelPlan& plan) {
  return plan.reduce == layout::ReduceEvery::microbatch && plan.gradients.cut != layout::CutOver::none;
}

struct Reduction {
  double seconds, bare;
};
/// Sums the gradients of all stages of a rank. Where several ranks need the same part of a sum, all get all of it.
Reduction gradient_reduction(const Work& work, const layout::ParallelPlan& plan) {
  const Group replicas = replica_group(plan, work.machine), parts = state_group(plan, plan.optimizer.cut, work.machine);
  const bool scattered = plan.optimizer.cut != layout::CutOver::none && parts.ranks == replicas.ranks;
  const double bytes = work.system.gradient_bytes * rank_parameters(work, plan);
  return {scattered ? gather_seconds(bytes, replicas, work.machine) : sum_seconds(bytes, replicas, work.machine),
          bare_seconds(work, plan, replicas)};
}

/// The transfers of weights, and of gradients that every micro-batch reduces.
Transfers state_transfers(const Work& work, const layout::ParallelPlan& plan) {
  const Transfers weights = weight_transfers(work, plan);
  if (!reduces_microbatches(plan)) return weights;
  const Reduction gradients = gradient_reduction(work, plan);
  return weights + Transfers{0, gradients.seconds, gradients.bare};
}

/// The transfers of what one block keeps, where that does not lie on the device.
Transfers activation_transfers(const Work& work, const Candidate& candidate) {
  const layout::ParallelPlan& plan = candidate.plan;
  if (plan.activations == layout::Tier::device) return {};
  const double bytes =
      kept_bytes(work.model, {candidate.samples, work.positions}, plan, plan.recompute.kind, work.system.element_bytes) /
      plan.recompute.every;
  const double seconds = transfer_seconds(bytes, plan.activations, work.machine);
  return {seconds, seconds};
}

double message_seconds(const Work& work, const Candidate& candidate) {
  const layout::ParallelPlan& plan = candidate.plan;
  if (plan.pp == 1) return 0;
  const Group pipeline = pipeline_group(plan, work.machine);
  const double rows = static_cast<double>(candidate.samples * work.positions) / plan.cp;
  const double bytes = work.system.element_bytes * rows * static_cast<double>(work.model.width);
  if (work.system.scatters_messages && plan.tp > 1) {
    return send_seconds(bytes / plan.tp, pipeline.inside, work.machine) +
           gather_seconds(bytes, tensor_group(plan, work.machine), work.machine);
  }
  return send_seconds(plan.sequence ? bytes / plan.tp : bytes, pipeline.inside, work.machine);
}

/// A rank's seconds of a micro-batch, and what of its time is what.
struct RankSeconds {
  double blocks = 0, heads = 0;
  double spared = 0;  ///< of the blocks, those of which nothing is recomputed
  double recomputed() const { return blocks - spared; }
  StepTime of(const BlockWork& block, const HeadWork& head) const {
    StepTime time;
    time.compute = blocks * (block.forward + block.input_backward + block.weight_backward) +
                   heads * (head.forward + head.input_backward + head.weight_backward);
    time.recompute = recomputed() * block.recompute;
    time.tensor_parallel = blocks * (block.exchange + block.exchange_backward) + recomputed() * block.exchange_recompute;
    return time;
  }
  double forward(const BlockWork& block, const HeadWork& head) const {
    return blocks * (block.forward + block.exchange) + heads * head.forward;
  }
  double backward(const BlockWork& block, const HeadWork& head) const {
    return blocks * (block.input_backward + block.weight_backward + block.exchange_backward) +
           heads * (head.input_backward + head.weight_backward);
  }
  /// What is left of transfers behind passes. In the backward pass they hide behind recomputation and the pass itself. Where
  /// a whole forward pass is recomputed, they hide behind that alone.
  Transfers waiting(const BlockWork& block, const HeadWork& head, const Transfers& moved, const System& system) const {
    if (moved.forward + moved.backward == 0) return {};
    const double recompute = recomputed() * (block.recompute + block.exchange_recompute);
    const bool whole = block.recompute >= block.forward;
    return {beside(moved.forward, forward(block, head), system),
            beside(moved.backward, whole ? recompute : recompute + backward(block, head), system) + moved.bare};
  }
};

/// A rank with the whole model: its backward pass follows its forward pass directly, so the last blocks need no recomputation.
RankSeconds whole_model(const Work& work, const layout::ParallelPlan& plan) {
  const std::int64_t spared = work.system.spares_last_blocks ? last_together(work.model.layers, plan.recompute) : 0;
  return {static_cast<double>(work.model.layers), 1, static_cast<double>(spared)};
}

std::vector<std::int64_t> split_of(const Work& work, const layout::ParallelPlan& plan) {
  return plan.split.empty() ? layout::even_split(plan.stages(), work.model.layers) : plan.split;
}

/// The part that a schedule leaves of the bubble of one chunk a rank. A rank's backward pass takes twice its forward pass.
double bubble_share(const layout::ParallelPlan& plan) {
  if (plan.schedule == "zb-h1") return 1.0 / 3;
  if (plan.schedule == "zb-v" || plan.schedule == "dualpipe-v") return 1.0 / 6;
  return 1.0 / plan.chunks;
}

/// The rank with most to do, and the one with most blocks.
std::pair<RankSeconds, RankSeconds> ranks_of(const Work& work, const layout::ParallelPlan& plan, const StageShares& shares) {
  if (plan.pp == 1) {
    const RankSeconds all = whole_model(work, plan);
    return {all, all};
  }
  const RankSeconds most{shares.most, 0}, last{shares.last, 1};
  // A split that gives the head's rank fewer blocks has made up for it.
  return {shares.most > shares.last ? most : last, most};
}

}  // namespace

Work::Work(const arch::ModelConfig& of, std::int64_t positions_of_a_sample, Machine on, System by)
    : model(of),
      positions(positions_of_a_sample),
      machine(used_by(by, std::move(on))),
      system(by),
      parameters(static_cast<double>(arch::count_parameters(model).total)) {}

std::vector<layout::PassSeconds> stage_seconds(const Work& work, const Candidate& candidate) {
  const MicrobatchSize size{candidate.samples, work.positions};
  const BlockWork block = block_work(work.model, size, candidate.plan, work.machine, work.system);
  const HeadWork head = head_work(work.model, size, candidate.plan, work.machine, work.system);
  const std::vector<std::int64_t> split = split_of(work, candidate.plan);
  const Transfers weights = state_transfers(work, candidate.plan) * (candidate.plan.pp / static_cast<double>(split.size())),
                  activations = activation_transfers(work, candidate);
  std::vector<layout::PassSeconds> stages;
  for (std::size_t stage = 0; stage < split.size(); ++stage) {
    const auto blocks = static_cast<double>(split[stage]);
    const RankSeconds own =
        split.size() == 1 ? whole_model(work, candidate.plan) : RankSeconds{blocks, stage + 1 == split.size() ? 1.0 : 0.0};
    const Transfers waits = own.waiting(block, head, weights + activations * blocks, work.system);
    stages.push_back({.forward = own.forward(block, head) + waits.forward,
                      .input_backward = own.blocks * (block.input_backward + block.exchange_backward) +
                                        own.recomputed() * (block.recompute + block.exchange_recompute) +
                                        own.heads * (head.input_backward + head.weight_backward) + waits.backward,
                      .weight_backward = own.blocks * block.weight_backward,
                      .message = message_seconds(work, candidate)});
  }
  return stages;
}

StepEnd step_end(const Work& work, const Candidate& candidate, double first_forward, double last_backward) {
  const layout::ParallelPlan& plan = candidate.plan;
  const Machine& machine = work.machine;
  const Group parts = state_group(plan, plan.optimizer.cut, machine);
  const double parameters = rank_parameters(work, plan), updated = parameters / parts.ranks;
  const Reduction reduction = reduces_microbatches(plan) ? Reduction{0, 0} : gradient_reduction(work, plan);
  const bool published = plan.parameters.cut == layout::CutOver::none;
  const double gathered = published ? gather_seconds(work.system.element_bytes * parameters, parts, machine) : 0;
  const double bare = reduction.bare + (published ? bare_seconds(work, plan, parts) : 0);
  // The first bucket has nothing to hide behind, nor has the last one.
  const double blocks = static_cast<double>(work.model.layers) / plan.pp;
  const auto exposed = [&](double seconds, double behind) {
    if (!work.system.hides_reductions) return seconds;
    return std::max(seconds / blocks, beside(seconds, behind, work.system));
  };
  // A disk reads or writes, the host's memory does both at once.
  const double moved = work.system.update_bytes * updated, ways = plan.optimizer.tier == layout::Tier::host ? 2 : 1;
  const double update = moved / machine.in_place_rate() + transfer_seconds(moved / ways, plan.optimizer.tier, machine);
  return {.replicas = exposed(reduction.seconds, last_backward) + exposed(gathered, first_forward) + bare, .optimizer = update};
}

StepTime step_time(const Work& work, const Candidate& candidate) { return StepTimer(work).of(candidate); }

const StepTimer::Passes& StepTimer::passes(const Candidate& candidate) {
  const layout::ParallelPlan& plan = candidate.plan;
  const auto common = [](const Candidate& of) {
    return std::tuple(of.samples, of.plan.dp, of.plan.tp, of.plan.cp, of.plan.pp, of.plan.context, of.plan.ranks_per_host);
  };
  if (common(candidate) != common(of_passes_)) {
    passes_.clear();
    of_passes_ = candidate;
  }
  for (const Passes& told : passes_) {
    if (told.sequence == plan.sequence && told.recompute == plan.recompute) return told;
  }
  const MicrobatchSize size{candidate.samples, work_.positions};
  passes_.push_back({.sequence = plan.sequence,
                     .recompute = plan.recompute,
                     .block = block_work(work_.model, size, plan, work_.machine, work_.system),
                     .head = head_work(work_.model, size, plan, work_.machine, work_.system)});
  return passes_.back();
}

const StageShares& StepTimer::shares(const layout::ParallelPlan& plan) {
  const layout::ParallelPlan& last = of_shares_;
  if (!shares_ || plan.pp != last.pp || plan.chunks != last.chunks || plan.schedule != last.schedule ||
      plan.split != last.split) {
    shares_ = stage_shares(plan, work_.model.layers);
    of_shares_ = plan;
  }
  return *shares_;
}

StepTime StepTimer::of(const Candidate& candidate) {
  const Work& work = work_;
  const layout::ParallelPlan& plan = candidate.plan;
  const Passes& told = passes(candidate);
  const BlockWork& block = told.block;
  const HeadWork& head = told.head;
  const auto [slowest, usual] = ranks_of(work, plan, shares(plan));
  StepTime time = slowest.of(block, head);
  const Transfers weights = state_transfers(work, plan);
  const auto waiting = [&](const Transfers& moved) {
    const Transfers waits = slowest.waiting(block, head, moved, work.system);
    return waits.forward + waits.backward;
  };
  time.gather = waiting(weights);
  if (plan.activations != layout::Tier::device)
    time.activations = waiting(weights + activation_transfers(work, candidate) * slowest.blocks) - time.gather;
  const double message = message_seconds(work, candidate);
  if (!work.system.hides_messages) time.messages = 2 * plan.chunks * message;
  const double forward = slowest.forward(block, head);
  const double backward = slowest.backward(block, head);
  const StepTime others = RankSeconds{usual.blocks, 0}.of(block, head);
  const double pass = others.total() + (work.system.hides_messages ? 0 : time.messages);
  for (double* each : {&time.compute, &time.recompute, &time.tensor_parallel, &time.gather, &time.activations, &time.messages})
    *each *= plan.microbatches;
  if (plan.pp > 1) {
    time.bubble = (plan.pp - 1) * bubble_share(plan) * pass;
    if (work.system.hides_messages) time.bubble += 2 * (plan.pp - 1) * message;
  }
  const StepEnd end = step_end(work, candidate, forward, backward);
  time.replicas = end.replicas;
  time.optimizer = end.optimizer;
  return time;
}

}  // namespace lockstep::planner
