#pragma once

// Tensors with names: what registries, checkpoints and comparisons iterate over.

#include <string>
#include <vector>

#include "tensor/tensor.h"

namespace lockstep {

struct NamedTensor {
  std::string name;  ///< global name: "transformer.h.0.attn.c_attn.weight"
  Tensor tensor;     ///< a view; the list owns nothing
};

using NamedTensors = std::vector<NamedTensor>;

}  // namespace lockstep
