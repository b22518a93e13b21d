#include "model/weights.h"

namespace lockstep::model {

void WeightSet::add(const layout::Unit& unit, const Tensor& flat) {
  for (const layout::PlacedParameter& parameter : unit.parameters) {
    const Shape& shape = parameter.shape();
    tensors_[static_cast<std::size_t>(parameter.info.role)] = flat.flat(parameter.offset, shape.elements()).reshape(shape);
  }
}

}  // namespace lockstep::model
