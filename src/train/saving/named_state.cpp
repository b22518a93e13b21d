#include "train/saving/named_state.h"

#include <algorithm>
#include <iterator>

namespace lockstep::train {

std::vector<std::string> slot_suffixes(const parallel::TrainingState& state) {
  std::vector<std::string> all;
  for (const std::string& slot : state.slots()) all.push_back("." + slot);
  return all;
}

std::vector<checkpoint::LogicalTensor> weight_tensors(const EngineConfig& config) {
  const std::string no_suffix;
  std::vector<checkpoint::LogicalTensor> all;
  for (const layout::Unit& unit : arch::units_of(arch::unit_table(config.model, config.decay))) {
    const DType type = unit.trained ? config.weights.owned() : config.weights.type;
    std::ranges::move(checkpoint::tensors_of(std::span(&unit, 1), type, std::span(&no_suffix, 1)), std::back_inserter(all));
  }
  return all;
}

std::vector<checkpoint::LogicalTensor> trained_tensors(const EngineConfig& config, DType type,
                                                       std::span<const std::string> suffixes) {
  std::vector<layout::Unit> units = arch::units_of(arch::unit_table(config.model, config.decay));
  std::erase_if(units, [](const layout::Unit& unit) { return !unit.trained; });
  return checkpoint::tensors_of(units, type, suffixes);
}

NamedPart part_of(const parallel::TrainingState& state, const parallel::StateRange& range, const Tensor& buffer,
                  const layout::Range& part, const std::string& suffix) {
  const Tensor values = part.count == 0 ? Tensor{} : buffer.flat(part.first - range.range.first, part.count);
  return {state.units()[static_cast<std::size_t>(range.unit.value)], part, values, suffix};
}

}  // namespace lockstep::train
