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
constexpr std::array<Row, 2> table{{{"AdamW", make_adamw}, {"sgd", make_sgd}}};

}  // namespace

double clip_factor(double norm, float limit) {
  if (!std::isfinite(norm)) return 0;
  if (limit <= 0) return 1;
  return std::min(1.0, static_cast<double>(limit) / (norm + 1e-6));
}

void Optimizer::address(const std::vector<layout::Unit>& units, std::uint64_t seed) {
  if (settings_.rounding == Rounding::nearest) return;
  for (const layout::Unit& unit : units) {
    std::vector<Piece>& pieces = pieces_.emplace_back();
    for (const layout::PlacedParameter& placed : unit.parameters) {
      const std::array<std::uint32_t, 2> key = CounterRng(seed, "rounding." + placed.info.name).key();
      for (const layout::Rectangle& part : placed.shard.rectangles({0, placed.shape().elements()})) {
        pieces.push_back({.elements = {placed.offset + part.local, part.rows * part.columns},
                          .decays = placed.info.decay,
                          .random = {.key = key, .first = part.global, .columns = part.columns, .stride = part.stride}});
      }
    }
  }
}

void Optimizer::update(ops::Ops& ops, parallel::TrainingState& state, const ops::WrittenScalars& scalars,
                       const UpdateNumbers& numbers) {
  using ops::StepScalars;
  const bool random = settings_.rounding == Rounding::stochastic;
  ensure(!random || pieces_.size() == state.units().size(), "elements have addresses before they are rounded");
  const std::int64_t number = state.updates() + 1;
  scalars[StepScalars::learning_rate] = static_cast<float>(numbers.learning_rate);
  scalars[StepScalars::clip_factor] = static_cast<float>(numbers.clip_factor);
  scalars[StepScalars::finite] = numbers.finite ? 1.0F : 0.0F;
  set_own(scalars, number);
  upload(ops.stream(), scalars.values);
  ops::Update& update = ops.update();
  const StepScalars there = scalars.on_device();
  state.for_each({.gradients = true, .slots = true, .changes = true, .halves = true}, [&](const parallel::StateRange& range) {
    if (random) return update_randomly(update, range, there, number);
    const std::int64_t decayed_end = state.units()[static_cast<std::size_t>(range.unit.value)].decayed;
    const std::int64_t decayed = std::clamp<std::int64_t>(decayed_end - range.range.first, 0, range.range.count);
    const std::int64_t rest = range.range.count - decayed;
    if (decayed > 0) update_part(update, {range, {0, decayed}, settings_.weight_decay, nullptr}, there);
    if (rest > 0) update_part(update, {range, {decayed, rest}, 0, nullptr}, there);
  });
  if (numbers.finite) state.set_updates(number);
}

// What lies between parameters is zero and stays so.
void Optimizer::update_randomly(ops::Update& update, const parallel::StateRange& range, const ops::StepScalars& scalars,
                                std::int64_t number) {
  for (const Piece& piece : pieces_[static_cast<std::size_t>(range.unit.value)]) {
    const layout::Range held = layout::overlap(piece.elements, range.range);
    if (held.count == 0) continue;
    ops::RandomRounding random = piece.random;
    random.update = static_cast<std::uint64_t>(number);
    random.skipped = held.first - piece.elements.first;
    update_part(update, {range, {held.first - range.range.first, held.count}, piece.decays ? settings_.weight_decay : 0, &random},
                scalars);
  }
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
