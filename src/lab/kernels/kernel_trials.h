#pragma once

// Whether another device's kernels make what the processor's make: every family, each with odd shapes, in f32 and bf16.

#include <cstdint>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "device/runtime.h"
#include "ops/ops.h"

namespace lockstep::lab {

/// Kernels, and the runtime that they were made for.
struct KernelMachine {
  Runtime& runtime;
  ops::Ops& ops;
};

/// One case on both.
struct KernelTrial {
  std::string family, what;    ///< "norm", "rms, backward"
  DType type = DType::f32;     ///< of activations
  std::int64_t values = 0;     ///< that were compared
  std::int64_t different = 0;  ///< of them, in their bits
  double distance = 0;     ///< the largest difference, over the largest value of its tensor; infinite beside what is not finite
  double allowed = 0;      ///< of the distance; 0: all bits are to be equal
  std::string error = {};  ///< what the other device threw, if it did

  bool right() const { return error.empty() && (allowed > 0 ? distance <= allowed : different == 0); }
};

/// Which bf16 cases are tried.
enum class Bf16Trials : std::uint8_t {
  widened,   ///< all: products add as the processor's do, so that bits are to be equal
  own_order  ///< those that make products, whose order of additions is the device's own
};

/// Every case of f32, and those of bf16, in turn. `other`: what is tried, with the processor's threads or a GPU's.
std::vector<KernelTrial> try_kernels(const KernelMachine& processor, const KernelMachine& other, Bf16Trials bf16);

}  // namespace lockstep::lab
