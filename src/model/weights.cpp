#include "model/weights.h"

namespace lockstep::model {

void WeightSet::add(const layout::Unit& unit, const Tensor& flat, const layout::Range& elements) {
  for (const layout::PlacedParameter& parameter : unit.parameters) {
    const Shape& shape = parameter.shape();
    const layout::Range own{parameter.offset, shape.elements()};
    if (own.first < elements.first || own.end() > elements.end()) continue;
    tensors_[static_cast<std::size_t>(parameter.info.role)] = flat.flat(own.first - elements.first, own.count).reshape(shape);
  }
}

}  // namespace lockstep::model
