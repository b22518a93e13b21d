#include "arch/flops.h"

#include "arch/parameters.h"
#include "layout/pipeline/schedules.h"

namespace lockstep::arch {
namespace {

/// How many times a forward pass' FLOPs a pass there and back takes, with or without weight gradients.
int passes(bool trained) { return trained ? 3 : 2; }

}  // namespace

double training_flops_per_token(const ModelConfig& config, std::int64_t positions) {
  std::int64_t keys = 0;
  for (std::int64_t layer = 0; layer < config.layers; ++layer) keys += seen_keys(config, layer, positions);
  const double attention = 12.0 * static_cast<double>(config.heads * config.head_size) * static_cast<double>(keys);
  const ParameterCounts counts = count_parameters(config);
  const std::int64_t multiplied = counts.without_positions - counts.looked_up;
  const std::int64_t as_they_are = config.adapter.used() ? multiplied - (counts.trained - counts.trained_looked_up) : 0;
  return 6.0 * static_cast<double>(multiplied) - 2.0 * static_cast<double>(as_they_are) + attention;
}

layout::PartCosts part_flops_per_token(const ModelConfig& config, std::int64_t positions) {
  ModelConfig headed = config;
  headed.layers = 0;
  const double head = training_flops_per_token(headed, positions);
  return {.block = (training_flops_per_token(config, positions) - head) / static_cast<double>(config.layers), .head = head};
}

double repeated_flops_per_token(const ModelConfig& config, std::int64_t positions, const layout::Recompute& recompute) {
  const auto layers = static_cast<double>(config.layers);
  switch (recompute.kind) {
    case layout::Recompute::Kind::none:
      return 0;
    case layout::Recompute::Kind::selective:
      return layers * 2 * static_cast<double>(config.width * config.ffn_width * (config.gated ? 2 : 1));
    case layout::Recompute::Kind::full:
      return layers * part_flops_per_token(config, positions).block / passes(!config.adapter.used());
  }
  return 0;
}

double head_again_flops_per_token(const ModelConfig& config, std::int64_t positions) {
  return part_flops_per_token(config, positions).head / passes(!config.adapter.used() || config.adapter.trains_head());
}

layout::ParallelPlan balanced(layout::ParallelPlan plan, const ModelConfig& config, std::int64_t positions) {
  if (plan.pp > 1 && plan.split.empty())
    plan.split = layout::balanced_split(layout::stage_map(plan), config.layers, part_flops_per_token(config, positions));
  return plan;
}

}  // namespace lockstep::arch
