#include "app/plan/foreign/exported.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <vector>

#include "app/plan/foreign/deepspeed_plan.h"
#include "app/plan/foreign/megatron.h"
#include "base/error.h"

namespace lockstep::app {
namespace {

constexpr std::string_view first_of_torchtitan = "--training.local_batch_size ";

std::string torchtitan_arguments(const planner::Work& work, const planner::Candidate& candidate, std::int64_t batch) {
  const layout::ParallelPlan& plan = candidate.plan;
  const std::int64_t local = plan.pp > 1 ? candidate.samples * plan.microbatches : candidate.samples;
  // Inside nodes only: whole on every node.
  const bool of_node = plan.parameters.cut == layout::CutOver::host;
  const int shard = of_node ? std::max(1, plan.ranks_per_host / (plan.tp * plan.cp)) : plan.dp;
  std::vector<std::string> all{fmt::format("{}{}", first_of_torchtitan, local),
                               fmt::format("--training.global_batch_size {}", batch),
                               fmt::format("--training.seq_len {}", work.positions),
                               fmt::format("--parallelism.data_parallel_replicate_degree {}", plan.dp / shard),
                               fmt::format("--parallelism.data_parallel_shard_degree {}", shard),
                               fmt::format("--parallelism.tensor_parallel_degree {}", plan.tp),
                               fmt::format("--parallelism.context_parallel_degree {}", plan.cp),
                               fmt::format("--parallelism.pipeline_parallel_degree {}", plan.pp),
                               fmt::format("--activation_checkpoint.mode {}", layout::to_string(plan.recompute)),
                               "--compile.enable"};
  if (plan.recompute.kind == layout::Recompute::Kind::selective)
    all.emplace_back("--activation_checkpoint.selective_ac_option op");
  if (plan.pp > 1) {
    all.push_back(fmt::format("--parallelism.pipeline_parallel_schedule {}", plan.chunks > 1 ? "Interleaved1F1B" : "1F1B"));
    all.push_back(fmt::format("--parallelism.pipeline_parallel_microbatch_size {}", candidate.samples));
  }
  return fmt::format("{}\n", fmt::join(all, "\n"));
}

}  // namespace

std::string exported(const NamedModel& model, const planner::Work& work, const planner::Candidate& candidate,
                     std::int64_t global_batch) {
  const std::string_view system = work.system.name;
  if (system == planner::megatron.name) return megatron::written(model, work, candidate, global_batch);
  if (system == planner::torchtitan.name) return torchtitan_arguments(work, candidate, global_batch);
  if (system == planner::deepspeed.name) return deepspeed::written(work, candidate, global_batch);
  throw UserError(fmt::format("--out: the layout of {} is in its users' code, not in a file", system),
                  "leave --out away; or --system torchtitan, megatron or deepspeed");
}

bool is_exported(std::string_view head) {
  return megatron::is_own(head) || head.starts_with(first_of_torchtitan) || deepspeed::is_own(head);
}

}  // namespace lockstep::app
