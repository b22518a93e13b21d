#pragma once

// Compares the results of another device's kernels with the processor's: every family, each with odd shapes, in f32 and bf16.

#include <cstdint>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "device/runtime.h"
#include "ops/ops.h"

namespace lockstep::lab {

/// Kernels, with the runtime that they were made for.
struct KernelMachine {
  Runtime& runtime;
  ops::Ops& ops;
};

/// One case on both devices.
struct KernelTrial {
  std::string family, what;    ///< "norm", "rms, backward"
  DType type = DType::f32;     ///< of activations
  std::int64_t values = 0;     ///< the number that was compared
  std::int64_t different = 0;  ///< how many of them differ in their bits
  double distance = 0;     ///< the largest difference, over the largest value of its tensor; infinite beside what is not finite
  double allowed = 0;      ///< the largest `distance` that is right; 0: all bits have to be equal
  std::string error = {};  ///< what the other device threw, if it did

  bool right() const { return error.empty() && (allowed > 0 ? distance <= allowed : different == 0); }
};

/// Which bf16 cases are tried, and how products add.
enum class Bf16Trials : std::uint8_t {
  widened,   ///< all cases: products add as the processor's do, so all bits have to be equal
  own_order  ///< cases with products, in the device's own order of additions
};

/// Tries every case in f32, and those in bf16, one after another. `other` is judged: the processor's threads or a GPU.
std::vector<KernelTrial> try_kernels(const KernelMachine& processor, const KernelMachine& other, Bf16Trials bf16);

}  // namespace lockstep::lab
