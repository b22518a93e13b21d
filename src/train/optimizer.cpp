#include "train/optimizer.h"

#include <algorithm>
#include <cmath>

namespace lockstep::train {

using ops::StepScalars;

double clip_factor(double norm, float limit) {
  if (!std::isfinite(norm)) return 0;
  if (limit <= 0) return 1;
  return std::min(1.0, static_cast<double>(limit) / (norm + 1e-6));
}

void set_update(const StepScalars& scalars, const ops::AdamW& rule, const UpdateNumbers& numbers) {
  const auto t = static_cast<double>(numbers.updates);
  scalars.host(StepScalars::learning_rate) = static_cast<float>(numbers.learning_rate);
  scalars.host(StepScalars::bias_correction1) = static_cast<float>(1.0 - std::pow(static_cast<double>(rule.beta1), t));
  scalars.host(StepScalars::bias_correction2) = static_cast<float>(1.0 - std::pow(static_cast<double>(rule.beta2), t));
  scalars.host(StepScalars::clip_factor) = static_cast<float>(numbers.clip_factor);
  scalars.host(StepScalars::finite) = numbers.finite ? 1.0F : 0.0F;
}

void update_range(ops::Update& update, ops::AdamW rule, const UpdateRange& range, const StepScalars& scalars) {
  const std::int64_t size = range.weights.elements();
  const std::int64_t decayed = std::clamp<std::int64_t>(range.decayed, 0, size);
  const auto part = [&](std::int64_t first, std::int64_t count) {
    if (count == 0) return;
    update.adamw(range.weights.flat(first, count), range.published.flat(first, count), range.gradient.flat(first, count),
                 range.exp_avg.flat(first, count), range.exp_avg_sq.flat(first, count), rule, scalars);
  };
  part(0, decayed);
  rule.weight_decay = 0;
  part(decayed, size - decayed);
}

void Optimizer::declare(Arena& arena) {
  const std::vector<layout::Unit>& units = parameters_.units();
  moments_.resize(units.size());
  for (std::size_t u = 0; u < units.size(); ++u) {
    const Tensor master = parameters_.shard(UnitIndex{static_cast<int>(u)}).master;
    arena.declare(moments_[u].exp_avg, units[u].name + ".exp_avg", master.shape, master.dtype);
    arena.declare(moments_[u].exp_avg_sq, units[u].name + ".exp_avg_sq", master.shape, master.dtype);
  }
}

void Optimizer::update(ops::Update& update, parallel::GradientStore& gradients, const ops::StepScalars& scalars) {
  const std::vector<layout::Unit>& units = parameters_.units();
  for (std::size_t u = 0; u < units.size(); ++u) {
    const UnitIndex index{static_cast<int>(u)};
    const parallel::ParameterStore::Shard weights = parameters_.shard(index);
    const parallel::GradientStore::Shard gradient = gradients.shard(index);
    update_range(update, rule_,
                 {.weights = weights.master,
                  .published = weights.published,
                  .gradient = gradient.gradient.flat(weights.first - gradient.first, weights.master.elements()),
                  .exp_avg = moments_[u].exp_avg,
                  .exp_avg_sq = moments_[u].exp_avg_sq,
                  .decayed = units[u].decayed - weights.first},
                 scalars);
  }
  parameters_.updated();
}

}  // namespace lockstep::train
