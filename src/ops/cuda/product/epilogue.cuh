#pragma once

// Finishes elements of a product behind their last addition, as ops/cpu/epilogue.cpp does. Each value is rounded once, where it
// is stored.

#include <cstdint>

#include "ops/cuda/device/math.cuh"
#include "ops/cuda/device/storage.cuh"

namespace lockstep::ops::cuda {

inline constexpr int finish_columns = eight;  ///< columns that are finished together

/// The epilogue of a product. A forward product gives y = residual + f(sum + bias), with a gate y = residual + f(gate) * (sum +
/// bias). The product of an input's gradient stores dx as y, and does what InputEpilogue says. A null operand is left out.
struct Finish {
  bool input = false;
  Activation activation = Activation::none;
  StoredRows y;
  StoredRows pre_activation = {}, gate = {};
  StoredRows bias = {}, residual = {};     ///< for forward products
  StoredRows d_gate = {}, activated = {};  ///< for gradients of inputs

  /// Finishes neighbours in row i from column j on, of which the first `count` are in the matrix.
  __device__ __forceinline__ void operator()(std::int64_t i, std::int64_t j, Eight& sums, std::int64_t count) const {
    input ? finish_input(i, j, sums, count) : finish_forward(i, j, sums, count);
  }

 private:
  /// The sum with its bias is rounded before f or a gate is applied, whether it is stored or not.
  __device__ __forceinline__ void finish_forward(std::int64_t i, std::int64_t j, Eight& values, std::int64_t count) const {
    Eight other;
    if (bias.data != nullptr) {
      bias.get(0, j, other, count);
      for (int e = 0; e < finish_columns; ++e) values[e] += other[e];
    }
    const bool gated = gate.data != nullptr;
    if (activation != Activation::none || gated || pre_activation.data != nullptr) {
      if (y.narrow) {
        for (float& value : values) value = as_stored<BFloat16>(value);
      }
      if (pre_activation.data != nullptr) pre_activation.put(i, j, values, count);
      if (gated) gate.get(i, j, other, count);
      for (int e = 0; e < finish_columns; ++e) {
        const float active = activate(activation, gated ? other[e] : values[e]);
        values[e] = gated ? active * values[e] : active;
      }
    }
    if (residual.data != nullptr) {
      residual.get(i, j, other, count);
      for (int e = 0; e < finish_columns; ++e) values[e] += other[e];
    }
    y.put(i, j, values, count);
  }

  __device__ __forceinline__ void finish_input(std::int64_t i, std::int64_t j, Eight& gradients, std::int64_t count) const {
    Eight before, gates, active;
    pre_activation.get(i, j, before, count);
    const bool gated = gate.data != nullptr;
    if (gated) gate.get(i, j, gates, count);
    for (int e = 0; e < finish_columns; ++e) {
      const Slope at = activate_slope(activation, gated ? gates[e] : before[e]);
      active[e] = gated ? at.value * before[e] : at.value;
      if (gated) before[e] = gradients[e] * before[e] * at.slope;  // the gate's gradient
      gradients[e] *= gated ? at.value : at.slope;
    }
    if (gated) d_gate.put(i, j, before, count);
    y.put(i, j, gradients, count);
    if (activated.data != nullptr) activated.put(i, j, active, count);
  }
};

}  // namespace lockstep::ops::cuda
