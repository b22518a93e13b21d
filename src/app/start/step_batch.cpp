#include "app/start/step_batch.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "app/settings/run_layout.h"
#include "base/number_text.h"

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

/// Sets optimizer.gas to what `setting` makes it, or returns why that cannot be.
std::vector<Problem> set_gas(RunConfig& config, std::int64_t gas, std::string_view setting, const char* remedy) {
  if (gas > layout::most_gas)
    return {{fmt::format("{} makes optimizer.gas = {}: must be at most {}", setting, gas, layout::most_gas), remedy}};
  config.optimizer.gas = gas;
  return {};
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
  return set_gas(config, kept / each, fmt::format("the run's global batch of {} samples", kept),
                 "resume with more ranks or a larger model.batch_size, or let it change with train.global_batch=new");
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

std::vector<Problem> settle_tokens(RunConfig& config, bool gas_is_given, std::int64_t ranks) {
  if (!config.train.tokens_per_step) return {};
  const std::int64_t wanted = *config.train.tokens_per_step, replicas = replicas_of(config, ranks);
  const auto each = product_of({config.model.batch_size, config.model.block_size, replicas});
  if (!each) return {};  // refused as a step that cannot be counted
  if (const std::int64_t below = wanted / *each * *each; wanted != below) {
    const std::string nearest = below > 0 ? fmt::format("{} or {}", below, below + *each) : std::to_string(*each);
    return {{fmt::format("train.tokens_per_step = {}: micro-batches of all replicas have {} tokens (model.batch_size = {} x "
                         "model.block_size = {} x {}), and they do not divide it",
                         wanted, *each, config.model.batch_size, config.model.block_size, replicas),
             fmt::format("train.tokens_per_step={}", nearest)}};
  }
  const std::int64_t gas = wanted / *each;
  if (gas_is_given && config.optimizer.gas != gas) {
    return {{fmt::format("optimizer.gas = {}: train.tokens_per_step = {} makes it {}", config.optimizer.gas, wanted, gas),
             "leave one of them out"}};
  }
  return set_gas(config, gas, fmt::format("train.tokens_per_step = {}", wanted), "a smaller step, or a larger model.batch_size");
}

}  // namespace lockstep::app
