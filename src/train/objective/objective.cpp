#include "train/objective/objective.h"

#include <fmt/format.h>

#include <algorithm>

namespace lockstep::train {
namespace {

constexpr std::array<ObjectiveRow, 3> objectives{
    {{Objective::lm, false, nullptr}, {Objective::sft, true, nullptr}, {Objective::dpo, true, make_dpo}}};

}  // namespace

std::string line_of(const std::optional<SampleFigures>& figures) {
  std::string line;
  for (std::size_t i = 0; figures && i < std::min<std::size_t>(2, figures->names.size()); ++i)
    line += fmt::format(", {} {:.4f}", figures->names[i], figures->values[i]);
  return line;
}

const ObjectiveRow& row_of(Objective kind) { return *std::ranges::find(objectives, kind, &ObjectiveRow::kind); }

std::unique_ptr<SampleLoss> make_sample_loss(const ObjectiveSettings& settings) {
  const ObjectiveRow& row = row_of(settings.kind);
  return row.make != nullptr ? row.make(settings) : nullptr;
}

}  // namespace lockstep::train
