#include "train/optimizer/optimizer.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "train/optimizer/adamw.h"
#include "train/optimizer/sgd.h"

namespace lockstep::train {
namespace {

struct Row {
  std::string_view name;
  std::unique_ptr<Optimizer> (*make)(const OptimizerSettings&);
};
constexpr std::array<Row, 2> table{{{"AdamW", make_adamw}, {"sgd", make_sgd}}};

}  // namespace

double clip_factor(double norm, float limit) {
  if (!std::isfinite(norm)) return 0;
  if (limit <= 0) return 1;
  return std::min(1.0, static_cast<double>(limit) / (norm + 1e-6));
}

void Optimizer::set(Stream& stream, const ops::WrittenScalars& scalars, const UpdateNumbers& numbers) const {
  using ops::StepScalars;
  scalars[StepScalars::learning_rate] = static_cast<float>(numbers.learning_rate);
  scalars[StepScalars::clip_factor] = static_cast<float>(numbers.clip_factor);
  scalars[StepScalars::finite] = numbers.finite ? 1.0F : 0.0F;
  set_own(scalars, numbers.updates);
  upload(stream, scalars.values);
}

void Optimizer::update(ops::Update& update, parallel::TrainingState& state, const ops::StepScalars& scalars) const {
  state.for_each({.gradients = true, .slots = true, .changes = true}, [&](const parallel::StateRange& range) {
    const std::int64_t decayed_end = state.units()[static_cast<std::size_t>(range.unit.value)].decayed;
    const std::int64_t decayed = std::clamp<std::int64_t>(decayed_end - range.range.first, 0, range.range.count);
    if (decayed > 0) update_flat(update, range, 0, decayed, settings_.weight_decay, scalars);
    if (decayed < range.range.count) update_flat(update, range, decayed, range.range.count - decayed, 0, scalars);
  });
}

std::unique_ptr<Optimizer> make_optimizer(const OptimizerSettings& settings) {
  const auto row = std::ranges::find(table, settings.name, &Row::name);
  ensure(row != table.end(), "an optimizer is one of the table");
  return row->make(settings);
}

std::vector<std::string> optimizer_names() {
  std::vector<std::string> names;
  for (const Row& row : table) names.emplace_back(row.name);
  return names;
}

}  // namespace lockstep::train
