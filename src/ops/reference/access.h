#pragma once

// Elements of tensors, one at a time.

#include "tensor/tensor.h"

namespace lockstep::ops::reference {

/// Element (i, j) of the f32 matrix that `tensor` is.
inline float& at(const Tensor& tensor, std::int64_t i, std::int64_t j) {
  return reinterpret_cast<float*>(tensor.data)[i * tensor.stride() + j];
}

/// Element i of a dense f32 tensor.
inline float& at(const Tensor& tensor, std::int64_t i) { return reinterpret_cast<float*>(tensor.data)[i]; }

/// Element i of a dense i32 tensor.
inline std::int32_t id_at(const Tensor& tensor, std::int64_t i) { return reinterpret_cast<std::int32_t*>(tensor.data)[i]; }

}  // namespace lockstep::ops::reference
