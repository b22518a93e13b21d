#pragma once

// Two more orders of additions of bf16 products. In both, blocks of 256 k are sums from zero, added in order by ordinary fp32
// additions, as in the first order. In a block denormal elements count as zero. A denormal sum counts as a zero of its sign.
// Every addition rounds to nearest even. Which NaN comes of NaNs is left open.
//
// The order of pairs is that of vdpbf16ps of AVX-512-bf16. A pair is the elements (a, b) at k and `k + 1`, k even. The product at
// `k + 1` is added first, then the one at k, each by a fused multiply-add in fp32. Intel's manual (volume 2, VDPBF16PS) gives
// this operation: "FP32 FMA with daz in, ftz out and RNE rounding", element 2i+1 before 2i. MXCSR is neither read nor written.
// Bochs computes the same. A K that is odd counts as one more, with zeros as its last elements.
//
// The order of amx is that of tdpbf16ps of AMX, which takes 32 k at a time. Their products at even k are one chain of fused
// multiply-adds from zero, in order of k; those at odd k are another. The two are added, and what that gives is added to the
// block's sum. The manual gives this operation (volume 2, TDPBF16PS). A K that is no multiple of 32 counts as one, with zeros at
// its end.

#include <cstdint>

#include "ops/cpu/options.h"

namespace lockstep::ops::cpu {

/// How products of two bf16 operands are made.
enum class Bf16Way : std::uint8_t {
  widened,
  pairs,           ///< by the instruction
  emulated_pairs,  ///< the same bits without it
  amx,             ///< by the instruction
  emulated_amx,    ///< the same bits without it
};
/// The way of an order. It is emulated when `isa` lacks the instruction.
Bf16Way way_of(Bf16Order order, Isa isa);

/// While it lives, this thread's arithmetic takes denormals for zeros and rounds to nearest even.
class FlushedDenormals {
 public:
  FlushedDenormals();
  ~FlushedDenormals();
  FlushedDenormals(const FlushedDenormals&) = delete;
  FlushedDenormals& operator=(const FlushedDenormals&) = delete;

 private:
  std::uint64_t before_;
};

}  // namespace lockstep::ops::cpu
