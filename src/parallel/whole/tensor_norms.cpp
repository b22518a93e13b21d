#include "parallel/whole/tensor_norms.h"

#include <algorithm>
#include <cmath>

namespace lockstep::parallel {

using ops::Reduce;

void TensorNormMemory::declare(Arena& workspace, const std::vector<layout::Unit>& all) {
  first.clear();
  tensors = 0;
  for (const layout::Unit& unit : all) {
    first.push_back(tensors);
    tensors += std::ssize(unit.parameters);
  }
  workspace.declare(digits, "squares of tensors", Shape{2 * tensors * Reduce::exact_digits}, DType::i64);
}

void TensorNorms::measure(TrainingState& state, ops::Ops& ops) {
  std::ranges::fill(elements<std::int64_t>(memory_.digits.host), 0);
  upload(ops.stream(), memory_.digits);
  state.for_each({.gradients = true}, [&](const StateRange& range) {
    const layout::Unit& unit = state.units()[static_cast<std::size_t>(range.unit.value)];
    for (std::size_t p = 0; p < unit.parameters.size(); ++p) {
      const layout::PlacedParameter& placed = unit.parameters[p];
      const layout::Range own = layout::overlap({placed.offset, placed.shape().elements()}, range.own);
      for (const layout::Range& run : layout::owned_runs(unit, own)) {
        const auto add = [&](std::int64_t number, const Tensor& of) {
          ops.reduce().exact_squares(memory_.digits.device.flat(number * Reduce::exact_digits, Reduce::exact_digits),
                                     of.flat(run.first - range.range.first, run.count));
        };
        add(number_of(range.unit, p), range.master);
        add(memory_.tensors + number_of(range.unit, p), range.gradient);
      }
    }
  });
  download(ops.stream(), memory_.digits);
  group_.host().all_reduce(memory_.digits.host, comm::Reduction::sum).wait();
}

TensorNorms::Norms TensorNorms::of(UnitIndex unit, std::size_t parameter) const {
  const std::int64_t number = number_of(unit, parameter);
  return {norm(number), norm(memory_.tensors + number)};
}

double TensorNorms::norm(std::int64_t number) const {
  const std::span<const std::int64_t> all = elements<const std::int64_t>(memory_.digits.host);
  return std::sqrt(
      Reduce::from_digits(all.subspan(static_cast<std::size_t>(number * Reduce::exact_digits), Reduce::exact_digits)));
}

}  // namespace lockstep::parallel
