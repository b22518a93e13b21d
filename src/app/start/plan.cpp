#include "app/start/plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <limits>

#include "app/parameter_server/roles.h"
#include "app/start/startup.h"
#include "base/error.h"
#include "comm/text.h"

namespace lockstep::app {
namespace {

// The settings', else the launcher's, else as the ranks were started. Collective.
int host_size(const RunConfig& config, comm::Communicator& trainers) {
  const std::vector<std::string> hosts = comm::all_texts(trainers, host_name());
  if (config.parallel.ranks_per_host) return static_cast<int>(*config.parallel.ranks_per_host);
  if (const char* given = std::getenv("NGPU_PER_HOST"); given != nullptr) {
    if (const int ranks = std::atoi(given); ranks > 0) return ranks;
    throw UserError(fmt::format("NGPU_PER_HOST={} is not a number of ranks", given), "unset it, or give a number from 1 on");
  }
  return ranks_per_host(hosts);
}

layout::PlanLimits limits_of(const arch::ModelConfig& model) {
  return {.layers = model.layers,
          .heads = model.heads,
          .ffn_width = model.ffn_width,
          .vocabulary = model.vocabulary,
          .positions = model.block_size};
}

}  // namespace

int ranks_per_host(const std::vector<std::string>& hosts) {
  std::size_t each = 0;
  for (std::size_t first = 0, end = 0; first < hosts.size(); first = end) {
    while (end < hosts.size() && hosts[end] == hosts[first]) ++end;
    if (each != 0 && end - first != each) return 0;
    each = end - first;
  }
  return static_cast<int>(each);
}

layout::ParallelPlan layout_of(const RunConfig& config, std::int64_t trainers) {
  layout::ParallelPlan plan;
  plan.tp = static_cast<int>(config.parallel.tp);
  plan.sequence = config.parallel.sequence;
  const std::int64_t of_a_model = std::int64_t{plan.tp} * plan.cp * plan.pp;
  plan.dp = static_cast<int>(config.parallel.dp.value_or(std::max<std::int64_t>(1, trainers / of_a_model)));
  plan.microbatches = static_cast<int>(config.optimizer.gas);
  plan.reduce = config.parallel.reduce == "microbatch" ? layout::ReduceEvery::microbatch : layout::ReduceEvery::step;
  plan.recompute = layout::recompute_from(config.memory.recompute).value_or(layout::Recompute{});
  const bool hosts = config.memory.zero_group == "node";
  layout::set_zero_level(plan, zero_level(config), hosts ? layout::CutOver::host : layout::CutOver::all);
  plan.prefetch = static_cast<int>(config.memory.prefetch);
  plan.reshard_after_forward = config.memory.reshard_after_forward;
  plan.allow_tp_across_hosts = config.parallel.allow_tp_across_hosts;
  return plan;
}

std::vector<Problem> check_layout(const RunConfig& config, std::int64_t ranks) {
  const std::int64_t trainers = workers_of(config, ranks);
  if (trainers < 1) return {};
  layout::ParallelPlan plan = layout_of(config, trainers);
  plan.ranks_per_host = plan.ranks();
  const arch::ModelConfig model = model_config(config, std::numeric_limits<std::int32_t>::max());
  return layout::check(plan, limits_of(model), trainers);
}

layout::ParallelPlan plan_of(const RunConfig& config, const arch::ModelConfig& model, comm::Communicator& trainers) {
  layout::ParallelPlan plan = layout_of(config, trainers.size());
  plan.ranks_per_host = host_size(config, trainers);
  if (std::vector<Problem> problems = layout::check(plan, limits_of(model), trainers.size()); !problems.empty())
    throw UserError(std::move(problems));
  return plan;
}

}  // namespace lockstep::app
