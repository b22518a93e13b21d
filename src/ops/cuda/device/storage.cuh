#pragma once

// Elements of device memory: f32 as they are, bf16 widened where they are read and rounded to the nearest where they are written.

#include <cuda_runtime.h>

#include <cstdint>
#include <type_traits>

#include "ops/positions.h"
#include "tensor/bfloat16.h"
#include "tensor/tensor.h"

namespace lockstep::ops::cuda {

__device__ __forceinline__ float load(const float* from) { return *from; }
__device__ __forceinline__ float load(const BFloat16* from) { return to_float(*from); }
__device__ __forceinline__ void store(float* to, float value) { *to = value; }
__device__ __forceinline__ void store(BFloat16* to, float value) { *to = to_bfloat16(value); }

/// The value as it is read again after a store as S.
template <class S>
__device__ __forceinline__ float as_stored(float value) {
  if constexpr (std::is_same_v<S, BFloat16>) return to_float(to_bfloat16(value));
  return value;
}

/// The rows of a matrix, `stride` elements apart. Null: there is none.
template <class S>
struct Rows {
  S* data = nullptr;
  std::int64_t stride = 0;
  __device__ __forceinline__ S* row(std::int64_t i) const { return data + i * stride; }
  __device__ __forceinline__ S* at(std::int64_t i, std::int64_t j) const { return data + i * stride + j; }
};

inline constexpr int eight = 8;
using Eight = float[eight];  ///< neighbours of a row

/// Eight neighbours in memory, which are read and written in pieces of 16 bytes.
template <class S>
struct alignas(16) Neighbours {
  S x[eight];
};
template <class S>
__device__ __forceinline__ bool are_neighbours(const S* at, std::int64_t count) {
  return count >= eight && reinterpret_cast<std::uintptr_t>(at) % 16 == 0;
}

/// Reads the first `count` of eight neighbours; the others are zero.
template <class S>
__device__ __forceinline__ void load(const S* from, Eight& to, std::int64_t count) {
  if (are_neighbours(from, count)) {
    const auto all = *reinterpret_cast<const Neighbours<S>*>(from);
    for (int e = 0; e < eight; ++e) to[e] = load(all.x + e);
  } else {
    for (int e = 0; e < eight; ++e) to[e] = e < count ? load(from + e) : 0.0F;
  }
}
template <class S>
__device__ __forceinline__ void store(S* to, const Eight& from, std::int64_t count) {
  if (are_neighbours(to, count)) {
    Neighbours<S> all;
    for (int e = 0; e < eight; ++e) store(all.x + e, from[e]);
    *reinterpret_cast<Neighbours<S>*>(to) = all;
  } else {
    for (int e = 0; e < eight; ++e) {
      if (e < count) store(to + e, from[e]);
    }
  }
}

/// The rows of a matrix whose type, f32 or bf16, is known at run time.
struct StoredRows {
  std::byte* data = nullptr;
  std::int64_t stride = 0;
  bool narrow = false;  ///< bf16
  __device__ __forceinline__ float get(std::int64_t i, std::int64_t j) const {
    const std::int64_t at = i * stride + j;
    return narrow ? load(reinterpret_cast<const BFloat16*>(data) + at) : load(reinterpret_cast<const float*>(data) + at);
  }
  __device__ __forceinline__ void put(std::int64_t i, std::int64_t j, float value) const {
    const std::int64_t at = i * stride + j;
    narrow ? store(reinterpret_cast<BFloat16*>(data) + at, value) : store(reinterpret_cast<float*>(data) + at, value);
  }
  /// Reads neighbours from column j on, of which `count` are in the matrix.
  __device__ __forceinline__ void get(std::int64_t i, std::int64_t j, Eight& to, std::int64_t count) const {
    const std::int64_t at = i * stride + j;
    narrow ? load(reinterpret_cast<const BFloat16*>(data) + at, to, count)
           : load(reinterpret_cast<const float*>(data) + at, to, count);
  }
  __device__ __forceinline__ void put(std::int64_t i, std::int64_t j, const Eight& from, std::int64_t count) const {
    const std::int64_t at = i * stride + j;
    narrow ? store(reinterpret_cast<BFloat16*>(data) + at, from, count) : store(reinterpret_cast<float*>(data) + at, from, count);
  }
};

/// Where rows of tokens stand in their documents (ops/positions.h).
struct Places {
  Positions positions;
  const std::int32_t* starts = nullptr;  ///< [samples, starts_stride], by position; null: a sample is one document
  std::int64_t starts_stride = 0;
  __device__ __forceinline__ std::int64_t of(std::int64_t row) const {
    const std::int64_t sample = row / positions.count(), position = positions.at(row - sample * positions.count());
    return starts == nullptr ? position : position - starts[sample * starts_stride + position];
  }
};

/// The elements of a dense tensor of S; null when it is empty.
template <class S>
S* data_of(const Tensor& tensor) {
  return reinterpret_cast<S*>(tensor.data);
}
template <class S>
Rows<S> rows_of(const Tensor& tensor) {
  return {data_of<S>(tensor), tensor.stride()};
}
inline StoredRows stored_rows(const Tensor& tensor) { return {tensor.data, tensor.stride(), tensor.dtype == DType::bf16}; }
inline Places places_of(const Positions& positions, const Tensor& starts) {
  return {positions, data_of<const std::int32_t>(starts), starts ? starts.stride() : 0};
}

/// Calls body(S()) for elements of `type`: float or BFloat16.
template <class Body>
void with_storage(DType type, const Body& body) {
  type == DType::bf16 ? body(BFloat16()) : body(float());
}

}  // namespace lockstep::ops::cuda
