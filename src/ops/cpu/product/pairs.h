#pragma once

// The second order of additions of bf16 products: pairs of k, as vdpbf16ps of AVX-512-bf16 adds them.
//
// Of elements (a, b) at k and k + 1, k even, the one at k + 1 is added first, then the one at k, each by a fused multiply-add
// in fp32 that rounds to nearest even. Denormals count as zero: as an element, and as what an addition gives (which then is a
// zero of its sign). That is the operation in Intel's manual (volume 2, VDPBF16PS: "FP32 FMA with daz in, ftz out and RNE
// rounding", MXCSR neither read nor written, element 2i+1 before 2i), and what Bochs computes. Which NaN comes of NaNs is left
// open. A K that is odd counts as one more, with zeros as its last elements.
//
// All else is as in the first order: blocks of 256 k are chains from zero, added in order by ordinary fp32 additions.

#include <cstdint>

#include "ops/cpu/options.h"

namespace lockstep::ops::cpu {

/// How products of two bf16 operands are made.
enum class Bf16Way : std::uint8_t {
  widened,
  pairs,           ///< by the instruction
  emulated_pairs,  ///< the same bits without it
};
/// The way of an order: pairs on Isa::avx512_bf16, which has the instruction, are emulated on the others.
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
