#include "train/divergence.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "checkpoint/find.h"
#include "comm/text.h"
#include "tensor/finite.h"

namespace lockstep::train {
namespace {

std::optional<std::int64_t> first_not_finite(const Tensor& piece) {
  if (all_finite(piece)) return std::nullopt;
  std::int64_t at = 0;
  while (all_finite(piece.flat(at, 1))) ++at;
  return at;
}

std::string name_at(const layout::Unit& unit, std::int64_t element) {
  for (const layout::PlacedParameter& placed : unit.parameters) {
    if (element >= placed.offset && element < placed.offset + placed.shape().elements()) return placed.info.name;
  }
  return {};
}

// Whether a tensor that `member` names holds a number that is not finite. Each rank looks at what it answers for. Collective.
bool any_of(Engine& engine, const parallel::TrainingState::Use& use, Tensor parallel::StateRange::* member) {
  std::int64_t found = 0;
  engine.state().for_each(use, [&](const parallel::StateRange& range) {
    const Tensor& values = range.*member;
    if (values.data == nullptr || range.own.count == 0) return;
    engine.pieces().read(values.flat(range.own.first - range.range.first, range.own.count),
                         [&](const Tensor& piece, std::int64_t) { found = found != 0 || !all_finite(piece) ? 1 : 0; });
  });
  engine.groups().all().host().all_reduce(view(std::span(&found, 1), Shape{1}), comm::Reduction::max).wait();
  return found != 0;
}

std::string first_of(Engine& engine, const parallel::TrainingState::Use& use, Tensor parallel::StateRange::* member) {
  if (!any_of(engine, use, member)) return {};
  parallel::TrainingState& state = engine.state();
  std::string name;
  state.for_each(use, [&](const parallel::StateRange& range) {
    const Tensor& values = range.*member;
    if (!name.empty() || values.data == nullptr) return;
    engine.pieces().read(values, [&](const Tensor& piece, std::int64_t first) {
      const std::optional<std::int64_t> at = name.empty() ? first_not_finite(piece) : std::nullopt;
      if (at) name = name_at(state.units()[static_cast<std::size_t>(range.unit.value)], range.range.first + first + *at);
    });
  });
  for (std::string& text : comm::all_texts(engine.groups().all(), name)) {
    if (!text.empty()) return std::move(text);
  }
  return {};
}

bool is_good(const checkpoint::Found& found) {
  return found.manifest && found.manifest->validation_loss && std::isfinite(*found.manifest->validation_loss);
}

/// How to go on: where the newest checkpoint was not evaluated, a resume may diverge again.
std::string remedy_with(const io::Path& run) {
  const std::vector<checkpoint::Found> saved = checkpoint::list_checkpoints(run);
  const auto good = std::ranges::find_if(saved.rbegin(), saved.rend(), is_good);
  if (saved.empty()) return "start again with a lower optimizer.learning_rate";
  if (good == saved.rend() || good == saved.rbegin()) {
    return fmt::format("go on from {} with a lower optimizer.learning_rate and train.init_from=resume",
                       saved.back().folder.string());
  }
  return fmt::format(
      "the last checkpoint with a validation loss is {0}: start a run of its own from it, with a lower optimizer.learning_rate "
      "and train.init_from={0}",
      good->folder.string());
}

}  // namespace

std::string first_weight_not_finite(Engine& engine) { return first_of(engine, {}, &parallel::StateRange::master); }

std::string first_gradient_not_finite(Engine& engine) {
  return first_of(engine, {.gradients = true}, &parallel::StateRange::gradient);
}

Problem divergence_of(Engine& engine, std::int64_t step, const std::string& what, const io::Path& run) {
  std::string where = first_weight_not_finite(engine);
  if (!where.empty()) where = fmt::format("; the first weight that is not finite is in {}", where);
  if (where.empty()) where = first_gradient_not_finite(engine);
  if (!where.empty() && where.front() != ';') where = fmt::format("; the first gradient that is not finite is that of {}", where);
  return {fmt::format("the run has diverged at step {}: {}{}", step, what, where),
          engine.groups().lead() ? remedy_with(run) : ""};
}

}  // namespace lockstep::train
