#include "app/start/kept_batch.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "app/settings/run_layout.h"

namespace lockstep::app {
namespace {

/// Numbers of ranks that divide a step's `kept` samples, or where none does the largest micro-batch with which these ranks do.
std::string fitting_batch(const RunConfig& config, const layout::ParallelPlan& plan, std::int64_t kept) {
  std::vector<std::int64_t> possible;
  for (std::int64_t n = 1; n <= kept / config.model.batch_size; ++n) {
    if (kept % (config.model.batch_size * n) == 0) possible.push_back(n * (plan.ranks() / plan.dp) + servers_of(config));
  }
  if (!possible.empty()) return fmt::format("--ranks {}", fmt::join(possible, ", "));
  std::int64_t batch = std::min(config.model.batch_size, kept / plan.dp);
  while (batch > 1 && kept % (batch * plan.dp) != 0) --batch;
  return batch > 0 && kept % plan.dp == 0 ? fmt::format("model.batch_size={}", batch)
                                          : fmt::format("at most {} groups of ranks and model.batch_size=1", kept);
}

}  // namespace

std::vector<Problem> keep_global_batch(RunConfig& config, std::int64_t kept, std::int64_t ranks) {
  const layout::ParallelPlan plan = layout_of(config, ranks);
  const std::int64_t each = config.model.batch_size * plan.dp;
  if (kept == each * config.optimizer.gas || config.train.global_batch == GlobalBatch::renew) return {};
  if (kept % each != 0) {
    return {{fmt::format("the run's global batch of {} samples does not divide by {} {} x model.batch_size = {}", kept, plan.dp,
                         plan.dp == plan.ranks() ? "ranks" : "groups of ranks", config.model.batch_size),
             fmt::format("resume with {}, or let it change with train.global_batch=new", fitting_batch(config, plan, kept))}};
  }
  config.optimizer.gas = kept / each;
  return {};
}

std::vector<Problem> keep_global_batch(RunConfig& config, const checkpoint::Choice& choice, std::int64_t ranks, Log& log) {
  const std::int64_t gas = config.optimizer.gas;
  std::vector<Problem> problems = keep_global_batch(config, choice.manifest.global_batch, ranks);
  if (config.optimizer.gas != gas) {
    log.info(fmt::format("optimizer.gas = {} keeps the checkpoint's global batch of {} samples on {} rank{}",
                         config.optimizer.gas, choice.manifest.global_batch, ranks, ranks == 1 ? "" : "s"));
  }
  return problems;
}

}  // namespace lockstep::app
