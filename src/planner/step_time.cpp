#include "planner/step_time.h"

#include <algorithm>
#include <numeric>

#include "arch/parameters.h"
#include "layout/pipeline/schedules.h"
#include "layout/pipeline/split.h"

namespace lockstep::planner {
namespace {

/// Parameters of a rank, as if all ranks of the model had as many.
double rank_parameters(const Work& work, const layout::ParallelPlan& plan) {
  return work.parameters / (static_cast<double>(plan.tp) * plan.pp);
}

/// What waits for weights, of a rank: seconds to gather those of one pass, all stages of it.
double fetch_seconds(const Work& work, const layout::ParallelPlan& plan) {
  const double bytes = work.system.element_bytes * rank_parameters(work, plan);
  const Group replicas = replica_group(plan, work.machine);
  double seconds = 0;
  if (plan.parameters.cut != layout::CutOver::none) seconds += gather_seconds(bytes, replicas, work.machine);
  const double own = plan.parameters.cut == layout::CutOver::none ? bytes : bytes / replicas.ranks;
  if (plan.parameters.tier == layout::Tier::host) seconds += own / work.machine.host_rate;
  if (plan.parameters.tier == layout::Tier::disk)
    seconds += own * static_cast<double>(work.machine.devices) / work.machine.disk_rate;
  return seconds;
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
  StepTime of(const BlockWork& block, const HeadWork& head) const {
    StepTime time;
    time.compute = blocks * (block.forward + block.input_backward + block.weight_backward) +
                   heads * (head.forward + head.input_backward + head.weight_backward);
    time.again = blocks * block.again;
    time.tensor = blocks * (block.exchange + block.exchange_again + block.exchange_backward);
    return time;
  }
  double forward(const BlockWork& block, const HeadWork& head) const {
    return blocks * (block.forward + block.exchange) + heads * head.forward;
  }
  double backward(const BlockWork& block, const HeadWork& head) const {
    return blocks * (block.input_backward + block.weight_backward + block.exchange_backward) +
           heads * (head.input_backward + head.weight_backward);
  }
  /// Gathers hide behind forward passes, the one that is made again too; else behind the backward pass.
  double waiting(const BlockWork& block, const HeadWork& head, double fetch, bool twice) const {
    if (fetch == 0) return 0;
    const double first = std::max(0.0, fetch - forward(block, head));
    if (!twice) return first;
    const double again = blocks * (block.again + block.exchange_again);
    const bool whole = block.again >= block.forward;
    return first + std::max(0.0, fetch - (whole ? again : again + backward(block, head)));
  }
};

std::vector<std::int64_t> split_of(const Work& work, const layout::ParallelPlan& plan) {
  return plan.split.empty() ? layout::even_split(plan.stages(), work.model.layers) : plan.split;
}

/// Of the bubble of one chunk a rank, what a schedule leaves; a rank's pass is forward, and backward of twice that.
double bubble_share(const layout::ParallelPlan& plan) {
  if (plan.schedule == "zb-h1") return 1.0 / 3;
  if (plan.schedule == "zb-v" || plan.schedule == "dualpipe-v") return 1.0 / 6;
  return 1.0 / plan.chunks;
}

/// The rank with most to do, and the first one.
std::pair<RankSeconds, RankSeconds> ranks_of(const Work& work, const layout::ParallelPlan& plan) {
  if (plan.pp == 1) {
    const RankSeconds all{static_cast<double>(work.model.layers), 1};
    return {all, all};
  }
  const layout::StageMap map = layout::stage_map(plan);
  const std::vector<std::int64_t> split = split_of(work, plan);
  std::vector<RankSeconds> ranks(static_cast<std::size_t>(plan.pp));
  for (int stage = 0; stage < map.stages(); ++stage)
    ranks[static_cast<std::size_t>(map.rank_of(stage))].blocks += static_cast<double>(split[static_cast<std::size_t>(stage)]);
  ranks[static_cast<std::size_t>(map.last_rank())].heads = 1;
  const RankSeconds& last = ranks[static_cast<std::size_t>(map.last_rank())];
  const RankSeconds& most = *std::ranges::max_element(ranks, {}, &RankSeconds::blocks);
  // A split that gives the head's rank fewer blocks has made up for it.
  return {most.blocks > last.blocks ? most : last, most};
}

}  // namespace

Work::Work(const arch::ModelConfig& of, std::int64_t positions_of_a_sample, Machine on, System by)
    : model(of),
      positions(positions_of_a_sample),
      machine(std::move(on)),
      system(by),
      parameters(static_cast<double>(arch::count_parameters(model).total)) {}

std::vector<layout::PassSeconds> stage_seconds(const Work& work, const Candidate& candidate) {
  const MicrobatchSize size{candidate.samples, work.positions};
  const BlockWork block = block_work(work.model, size, candidate.plan, work.machine, work.system);
  const HeadWork head = head_work(work.model, size, candidate.plan, work.machine, work.system);
  const std::vector<std::int64_t> split = split_of(work, candidate.plan);
  const double fetch = fetch_seconds(work, candidate.plan) / static_cast<double>(split.size()) * candidate.plan.pp;
  std::vector<layout::PassSeconds> stages;
  for (std::size_t stage = 0; stage < split.size(); ++stage) {
    const RankSeconds own{static_cast<double>(split[stage]), stage + 1 == split.size() ? 1.0 : 0.0};
    const double first = own.waiting(block, head, fetch, false);
    const double second = candidate.plan.reshard_after_forward ? own.waiting(block, head, fetch, true) - first : 0;
    stages.push_back(
        {.forward = own.forward(block, head) + first,
         .input_backward = own.blocks * (block.again + block.exchange_again + block.input_backward + block.exchange_backward) +
                           own.heads * (head.input_backward + head.weight_backward) + second,
         .weight_backward = own.blocks * block.weight_backward,
         .message = message_seconds(work, candidate)});
  }
  return stages;
}

StepEnd step_end(const Work& work, const Candidate& candidate, double first_forward, double last_backward) {
  const layout::ParallelPlan& plan = candidate.plan;
  const Machine& machine = work.machine;
  const Group replicas = replica_group(plan, machine);
  const double parameters = rank_parameters(work, plan);
  const double updated = plan.optimizer.cut == layout::CutOver::none ? parameters : parameters / replicas.ranks;
  const bool scattered = plan.optimizer.cut != layout::CutOver::none;
  const double gradient_bytes = work.system.gradient_bytes * parameters;
  const double reduced =
      scattered ? gather_seconds(gradient_bytes, replicas, machine) : sum_seconds(gradient_bytes, replicas, machine);
  const bool published = scattered && plan.parameters.cut == layout::CutOver::none;
  const double gathered = published ? gather_seconds(work.system.element_bytes * parameters, replicas, machine) : 0;
  // The first bucket has nothing to hide behind, nor has the last one.
  const double blocks = static_cast<double>(work.model.layers) / plan.pp;
  const auto exposed = [&](double seconds, double behind) {
    return work.system.hides_reductions ? std::max(seconds / blocks, seconds - behind) : seconds;
  };
  double update = work.system.update_bytes * updated / machine.memory_rate;
  if (plan.optimizer.tier == layout::Tier::host) update += work.system.update_bytes * updated / 2 / machine.host_rate;
  if (plan.optimizer.tier == layout::Tier::disk)
    update += work.system.update_bytes * updated * static_cast<double>(machine.devices) / machine.disk_rate;
  return {.replicas = exposed(reduced, last_backward) + exposed(gathered, first_forward), .optimizer = update};
}

StepTime step_time(const Work& work, const Candidate& candidate) {
  const layout::ParallelPlan& plan = candidate.plan;
  const MicrobatchSize size{candidate.samples, work.positions};
  const BlockWork block = block_work(work.model, size, plan, work.machine, work.system);
  const HeadWork head = head_work(work.model, size, plan, work.machine, work.system);
  const auto [slowest, usual] = ranks_of(work, plan);
  StepTime time = slowest.of(block, head);
  time.gather = slowest.waiting(block, head, fetch_seconds(work, plan), plan.reshard_after_forward);
  const double message = message_seconds(work, candidate);
  if (!work.system.hides_messages) time.messages = 2 * plan.chunks * message;
  const double forward = slowest.forward(block, head);
  const double backward = slowest.backward(block, head);
  const StepTime others = RankSeconds{usual.blocks, 0}.of(block, head);
  const double pass = others.total() + (work.system.hides_messages ? 0 : time.messages);
  for (double* each : {&time.compute, &time.again, &time.tensor, &time.gather, &time.messages}) *each *= plan.microbatches;
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
