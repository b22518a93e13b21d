#pragma once

// Elements of tensors, one at a time. Weights and activations may be stored as f32 or bf16: get() and put() convert. Use at() for
// what is always f32.

#include "tensor/bfloat16.h"
#include "tensor/tensor.h"

namespace lockstep::ops::reference {

/// Element i of a dense f32 or bf16 tensor.
inline float get(const Tensor& tensor, std::int64_t i) {
  if (tensor.dtype == DType::bf16) return to_float(reinterpret_cast<const BFloat16*>(tensor.data)[i]);
  ensure(tensor.dtype == DType::f32, "the reference reads F32 or BF16");
  return reinterpret_cast<const float*>(tensor.data)[i];
}

/// Element i of a dense f32 or bf16 tensor becomes `value`, rounded to its type (by way of f32).
inline void put(const Tensor& tensor, std::int64_t i, double value) {
  const auto rounded = static_cast<float>(value);
  if (tensor.dtype == DType::bf16) {
    reinterpret_cast<BFloat16*>(tensor.data)[i] = to_bfloat16(rounded);
  } else {
    ensure(tensor.dtype == DType::f32, "the reference writes F32 or BF16");
    reinterpret_cast<float*>(tensor.data)[i] = rounded;
  }
}

/// Element i of an f32 tensor that is stored in halves (Halves). put_halves() takes an empty `low`, too.
inline float joined(const Tensor& high, const Tensor& low, std::int64_t i) {
  return from_halves({reinterpret_cast<const BFloat16*>(high.data)[i], reinterpret_cast<const std::uint16_t*>(low.data)[i]});
}
inline void put_halves(const Tensor& high, const Tensor& low, std::int64_t i, float value) {
  const Halves halves = to_halves(value);
  reinterpret_cast<BFloat16*>(high.data)[i] = halves.high;
  if (low) reinterpret_cast<std::uint16_t*>(low.data)[i] = halves.low;
}

/// get() and put() for element (i, j) of the matrix that `tensor` is.
inline float get(const Tensor& tensor, std::int64_t i, std::int64_t j) { return get(tensor, i * tensor.stride() + j); }
inline void put(const Tensor& tensor, std::int64_t i, std::int64_t j, double value) {
  put(tensor, i * tensor.stride() + j, value);
}

/// Element i of a dense f32 tensor.
inline float& at(const Tensor& tensor, std::int64_t i) {
  ensure(tensor.dtype == DType::f32, "the elements are F32");
  return reinterpret_cast<float*>(tensor.data)[i];
}

/// Element (i, j) of the f32 matrix that `tensor` is.
inline float& at(const Tensor& tensor, std::int64_t i, std::int64_t j) { return at(tensor, i * tensor.stride() + j); }

/// Element i of a dense f64 tensor.
inline double& double_at(const Tensor& tensor, std::int64_t i) {
  ensure(tensor.dtype == DType::f64, "the elements are F64");
  return reinterpret_cast<double*>(tensor.data)[i];
}

/// Element i of a dense i32 tensor.
inline std::int32_t id_at(const Tensor& tensor, std::int64_t i) { return reinterpret_cast<std::int32_t*>(tensor.data)[i]; }

}  // namespace lockstep::ops::reference
