#include "lab/verify/whole_model.h"

#include "arch/parameters.h"
#include "checkpoint/held_unit.h"

namespace lockstep::lab {

WholeModel::WholeModel(const arch::ModelConfig& config) {
  const std::vector<arch::UnitSpec> table = arch::unit_table(config);
  std::vector<UnitIndex> order = arch::backward_order(arch::unit_map(config));
  for (int unit = 0; unit < std::ssize(table); ++unit) {
    if (!table[static_cast<std::size_t>(unit)].trained) order.emplace_back(unit);
  }
  for (const UnitIndex unit : order) {
    const arch::UnitSpec& spec = table[static_cast<std::size_t>(unit.value)];
    for (const arch::ParameterSpec& parameter : spec.parameters) {
      numbers[parameter.info.name] = static_cast<int>(parameters.size());
      parameters.push_back({parameter.info.name, spec.name, parameter.info.shape.elements(), elements, spec.trained});
      elements += parameters.back().elements;
    }
  }
}

WholeValues::WholeValues(const WholeModel& model, DType type)
    : model_(&model), type_(type), values_(host_memory().allocate(static_cast<std::size_t>(model.elements) * size_of(type))) {}

Tensor WholeValues::of(int parameter, std::int64_t first, std::int64_t count) const {
  const std::int64_t offset = model_->parameters[static_cast<std::size_t>(parameter)].offset + first;
  Tensor part;
  part.data = values_.data() + static_cast<std::size_t>(offset) * size_of(type_);
  part.shape = Shape{count};
  part.dtype = type_;
  return part;
}

void for_each_run(const WholeModel& model, const layout::Unit& unit, const layout::Range& held, const Tensor& values,
                  const layout::Range& own, const std::function<void(const HeldRun& run)>& use) {
  const auto part = [&](std::int64_t first, std::int64_t end, bool counts) {
    if (first >= end) return;
    const Tensor flat = values.flat(first - held.first, end - first);
    for (const checkpoint::HeldTensor& tensor : checkpoint::hold(unit, {first, end - first}, flat)) {
      const int parameter = model.numbers.at(tensor.tensor.name);
      for (const checkpoint::HeldRange& some : tensor.ranges) {
        checkpoint::for_each_run(some,
                                 [&](std::int64_t at, const Tensor& run) { use({parameter, at, run, counts && some.counts}); });
      }
    }
  };
  const std::int64_t own_first = own.count > 0 ? own.first : held.end();
  const std::int64_t own_end = own.count > 0 ? own.end() : held.end();
  part(held.first, own_first, false);
  part(own_first, own_end, true);
  part(own_end, held.end(), false);
}

}  // namespace lockstep::lab
