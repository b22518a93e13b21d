#pragma once

// Which instruction set a kernel family of the CPU uses. A family resolves its Highway function pointers once, in its
// constructor, inside a ScopedIsa:
//
//   ScopedIsa scope(isa);
//   add_ = &HWY_DYNAMIC_DISPATCH(AddRows);   // a plain function pointer from here on
//
// so that families of several instruction sets live in one process and tests compare them. The compiled targets are the baseline
// (SSSE3), AVX2 and AVX3 (HWY_DISABLED_TARGETS in cmake/Compiler.cmake), or NEON. The baseline has no fused multiply-add: its
// bits differ from those of the others, which agree with each other. Kernels of avx512_bf16 are those of avx512, but for products
// of two bf16 operands in pairs, which use its instruction. The kernels of amx use AMX's instruction for tiles, too
// (product/bf16_way.h).

#include <mutex>

#include "ops/cpu/options.h"

namespace lockstep::ops::cpu {

/// While it lives, HWY_DYNAMIC_DISPATCH means the variant for `isa`, and no other ScopedIsa lives. Keep it short: it is for
/// constructors alone.
class ScopedIsa {
 public:
  /// Throws UserError when the machine lacks `isa`.
  explicit ScopedIsa(Isa isa);
  ~ScopedIsa();
  ScopedIsa(const ScopedIsa&) = delete;
  ScopedIsa& operator=(const ScopedIsa&) = delete;

 private:
  std::unique_lock<std::mutex> lock_;
};

}  // namespace lockstep::ops::cpu
