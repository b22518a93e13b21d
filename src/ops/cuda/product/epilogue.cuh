#pragma once

// What is done with an element of a product behind its last addition, as ops/cpu/epilogue.cpp does it. Each value is rounded
// once, where it is stored.

#include <cstdint>

#include "ops/cuda/device/math.cuh"
#include "ops/cuda/device/storage.cuh"

namespace lockstep::ops::cuda {

/// forward: y = residual + f(sum + bias), with a gate residual + f(gate) * (sum + bias). input: y, which is dx, and what
/// InputEpilogue says. What is null is not there.
struct Finish {
  bool input = false;
  Activation activation = Activation::none;
  StoredRows y;
  StoredRows pre_activation = {}, gate = {};
  StoredRows bias = {}, residual = {};     ///< forward
  StoredRows d_gate = {}, activated = {};  ///< input

  __device__ __forceinline__ void operator()(std::int64_t i, std::int64_t j, float sum) const {
    input ? finish_input(i, j, sum) : finish_forward(i, j, sum);
  }

 private:
  /// pre is rounded before f or a gate meets it, stored or not.
  __device__ __forceinline__ void finish_forward(std::int64_t i, std::int64_t j, float value) const {
    if (bias.data != nullptr) value += bias.get(0, j);
    const bool met = activation != Activation::none || gate.data != nullptr || pre_activation.data != nullptr;
    if (met && y.narrow) value = as_stored<BFloat16>(value);
    if (pre_activation.data != nullptr) pre_activation.put(i, j, value);
    const float active = activate(activation, gate.data != nullptr ? gate.get(i, j) : value);
    value = gate.data != nullptr ? active * value : active;
    if (residual.data != nullptr) value += residual.get(i, j);
    y.put(i, j, value);
  }

  __device__ __forceinline__ void finish_input(std::int64_t i, std::int64_t j, float gradient) const {
    const float before = pre_activation.get(i, j);
    const Slope at = activate_slope(activation, gate.data != nullptr ? gate.get(i, j) : before);
    if (gate.data == nullptr) {
      y.put(i, j, gradient * at.slope);
      if (activated.data != nullptr) activated.put(i, j, at.value);
      return;
    }
    d_gate.put(i, j, gradient * before * at.slope);
    y.put(i, j, gradient * at.value);
    if (activated.data != nullptr) activated.put(i, j, at.value * before);
  }
};

}  // namespace lockstep::ops::cuda
