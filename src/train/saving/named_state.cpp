#include "train/saving/named_state.h"

namespace lockstep::train {

std::vector<std::string> slot_suffixes(const parallel::TrainingState& state) {
  std::vector<std::string> all;
  for (const std::string& slot : state.slots()) all.push_back("." + slot);
  return all;
}

std::vector<layout::Unit> units_of_model(const EngineConfig& config) {
  return arch::units_of(arch::unit_table(config.model, config.decay));
}

const std::vector<std::string>& weight_suffixes() {
  static const std::vector<std::string> nothing{""};
  return nothing;
}

NamedPart part_of(const parallel::TrainingState& state, const parallel::StateRange& range, const Tensor& buffer,
                  const layout::Range& part, const std::string& suffix) {
  const Tensor values = part.count == 0 ? Tensor{} : buffer.flat(part.first - range.range.first, part.count);
  return {state.units()[static_cast<std::size_t>(range.unit.value)], part, values, suffix};
}

}  // namespace lockstep::train
