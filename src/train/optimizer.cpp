#include "train/optimizer.h"

#include <algorithm>

namespace lockstep::train {

void Optimizer::declare(Arena& arena) {
  const std::vector<layout::Unit>& units = parameters_.units();
  moments_.resize(units.size());
  for (std::size_t u = 0; u < units.size(); ++u) {
    const Shape shape = parameters_.shard(UnitIndex{static_cast<int>(u)}).master.shape;
    arena.declare(moments_[u].exp_avg, units[u].name + ".exp_avg", shape, DType::f32);
    arena.declare(moments_[u].exp_avg_sq, units[u].name + ".exp_avg_sq", shape, DType::f32);
  }
}

void Optimizer::update(ops::Update& update, parallel::GradientStore& gradients, const ops::StepScalars& scalars) {
  const std::vector<layout::Unit>& units = parameters_.units();
  for (std::size_t u = 0; u < units.size(); ++u) {
    const UnitIndex index{static_cast<int>(u)};
    const parallel::ParameterStore::Shard weights = parameters_.shard(index);
    const parallel::GradientStore::Shard gradient = gradients.shard(index);
    const std::int64_t size = weights.master.elements();
    const std::int64_t decayed = std::clamp<std::int64_t>(units[u].decayed - weights.first, 0, size);
    const auto range = [&](std::int64_t first, std::int64_t count, float weight_decay) {
      if (count == 0) return;
      ops::AdamW rule = rule_;
      rule.weight_decay = weight_decay;
      update.adamw(weights.master.flat(first, count), weights.published.flat(first, count),
                   gradient.gradient.flat(weights.first - gradient.first + first, count), moments_[u].exp_avg.flat(first, count),
                   moments_[u].exp_avg_sq.flat(first, count), rule, scalars);
    };
    range(0, decayed, rule_.weight_decay);
    range(decayed, size - decayed, 0);
  }
  parameters_.updated();
}

}  // namespace lockstep::train
