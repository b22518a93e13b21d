#include "model/weights.h"

namespace lockstep::model {

WeightSet::WeightSet(const layout::Unit& unit, const Tensor& flat) {
  for (const layout::PlacedParameter& parameter : unit.parameters) {
    const Shape& shape = parameter.info.shape;
    tensors_[static_cast<std::size_t>(parameter.info.role)] = flat.flat(parameter.offset, shape.elements()).reshape(shape);
  }
}

}  // namespace lockstep::model
