#include "planner/waiting.h"

namespace lockstep::planner {
namespace {

using comm::Collective;
using layout::ContextMethod;

/// The part of the tensor ranks' and context ranks' exchanges that is sums of tensor ranks.
double share_of_sums(const Work& work, const Candidate& candidate, const BlockWork& block) {
  if (candidate.plan.cp == 1) return 1;
  if (candidate.plan.tp == 1 || block.exchange == 0) return 0;
  layout::ParallelPlan alone = candidate.plan;
  alone.cp = 1;
  const MicrobatchSize own{candidate.samples, work.positions / candidate.plan.cp};
  return block_work(work.model, own, alone, work.machine, work.system).exchange / block.exchange;
}

}  // namespace

comm::CollectiveSeconds waiting_by_kind(const Work& work, const Candidate& candidate, const StepTime& time) {
  const layout::ParallelPlan& plan = candidate.plan;
  comm::CollectiveSeconds seconds = {};
  const auto add = [&](Collective kind, double more) { seconds[static_cast<std::size_t>(kind)] += more; };
  // Forward passes gather, and backward passes scatter sums.
  const auto add_both = [&](double forward, double backward) {
    add(Collective::all_gather, forward);
    add(Collective::reduce_scatter, backward);
  };

  if (time.tensor_parallel > 0) {
    const BlockWork block = block_work(work.model, {candidate.samples, work.positions}, plan, work.machine, work.system);
    const double sums = time.tensor_parallel * share_of_sums(work, candidate, block), rest = time.tensor_parallel - sums;
    // Forward and backward passes enter and leave as many sub-layers.
    plan.sequence ? add_both(sums / 2, sums / 2) : add(Collective::all_reduce, sums);
    const double all = block.exchange + block.exchange_recompute + block.exchange_backward;
    if (plan.context == ContextMethod::allgather) {
      add_both(rest * (block.exchange + block.exchange_recompute) / all, rest * block.exchange_backward / all);
    } else {
      add(plan.context == ContextMethod::ulysses ? Collective::all_to_all : Collective::receive, rest);
    }
  }
  add(Collective::receive, time.messages + time.bubble);
  add(Collective::all_gather, time.gather);
  if (plan.optimizer.cut == layout::CutOver::none) {
    add(Collective::all_reduce, time.replicas);
  } else {
    const bool published = plan.parameters.cut == layout::CutOver::none;
    const double gradients = work.system.gradient_bytes, weights = published ? work.system.element_bytes : 0;
    add_both(time.replicas * weights / (gradients + weights), time.replicas * gradients / (gradients + weights));
  }
  return seconds;
}

}  // namespace lockstep::planner
