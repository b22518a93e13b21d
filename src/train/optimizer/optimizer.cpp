#include "train/optimizer/optimizer.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/rng.h"
#include "train/optimizer/methods.h"

namespace lockstep::train {
namespace {

struct Row {
  std::string_view name;
  std::unique_ptr<Optimizer> (*make)(const OptimizerSettings&);
};
constexpr std::array<Row, 4> table{{{"AdamW", make_adamw}, {"sgd", make_sgd}, {"lars", make_lars}, {"muon", make_muon}}};

}  // namespace

double clip_factor(double norm, float limit) {
  if (!std::isfinite(norm)) return 0;
  if (limit <= 0) return 1;
  return std::min(1.0, static_cast<double>(limit) / (norm + 1e-6));
}

void Optimizer::address(const std::vector<layout::Unit>& units, std::uint64_t seed) {
  if (!by_pieces()) return;
  const bool random = settings_.rounding == Rounding::stochastic;
  for (const layout::Unit& unit : units) {
    std::vector<Piece>& pieces = pieces_.emplace_back();
    for (std::size_t p = 0; p < unit.parameters.size(); ++p) {
      const layout::PlacedParameter& placed = unit.parameters[p];
      const layout::Range all{0, placed.shape().elements()};
      if (!random) {
        pieces.push_back({{placed.offset, all.count}, placed.info.decay, p, {}});
        continue;
      }
      const std::array<std::uint32_t, 2> key = CounterRng(seed, "rounding." + placed.info.name).key();
      for (const layout::Rectangle& part : placed.shard.rectangles(all)) {
        pieces.push_back({.elements = {placed.offset + part.local, part.rows * part.columns},
                          .decays = placed.info.decay,
                          .parameter = p,
                          .random = {.key = key, .first = part.global, .columns = part.columns, .stride = part.stride}});
      }
    }
  }
}

void Optimizer::update(ops::Ops& ops, parallel::TrainingState& state, const ops::WrittenScalars& scalars,
                       const UpdateNumbers& numbers) {
  using ops::StepScalars;
  ensure(!by_pieces() || pieces_.size() == state.units().size(), "elements have addresses before they are updated by tensors");
  const std::int64_t number = state.updates() + 1;
  scalars[StepScalars::learning_rate] = static_cast<float>(numbers.learning_rate);
  scalars[StepScalars::clip_factor] = static_cast<float>(numbers.clip_factor);
  scalars[StepScalars::finite] = numbers.finite ? 1.0F : 0.0F;
  set_own(scalars, number);
  upload(ops.stream(), scalars.values);
  ops::Update& update = ops.update();
  const StepScalars there = scalars.on_device();
  if (numbers.finite) prepare({ops, state, there, numbers, number});
  state.for_each({.gradients = true, .slots = true, .changes = true, .halves = true}, [&](const parallel::StateRange& range) {
    if (by_pieces()) return for_pieces(range, number, [&](const Part& part) { update_part(update, part, there); });
    const std::int64_t decayed_end = state.units()[static_cast<std::size_t>(range.unit.value)].decayed;
    const std::int64_t decayed = std::clamp<std::int64_t>(decayed_end - range.range.first, 0, range.range.count);
    const std::int64_t rest = range.range.count - decayed;
    if (decayed > 0) update_part(update, {range, {0, decayed}, settings_.weight_decay, nullptr}, there);
    if (rest > 0) update_part(update, {range, {decayed, rest}, 0, nullptr}, there);
  });
  if (numbers.finite) state.set_updates(number);
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
