#pragma once

// Two more orders of additions of bf16 products. In both, blocks of 256 k are sums from zero, added in order by ordinary fp32
// additions, as in the first order. In a block denormals count as zero: as an element, and as what an addition gives (which
// then is a zero of its sign). Every addition rounds to nearest even. Which NaN comes of NaNs is left open.
//
// Pairs are those of vdpbf16ps of AVX-512-bf16.
// Of elements (a, b) at k and k + 1, k even, the one at k + 1 is added first, then the one at k, each by a fused multiply-add
// in fp32. That is the operation in Intel's manual (volume 2, VDPBF16PS: "FP32 FMA with daz in, ftz out and RNE rounding", MXCSR
// neither read nor written, element 2i+1 before 2i), and what Bochs computes. A K that is odd counts as one more, with zeros as
// its last elements.
//
// The third order is that of tdpbf16ps of AMX. Of 32 k the products at even k are one chain of fused multiply-adds from zero, in
// order of k, and those at odd k another. The two are added, and what that gives is added to the block's sum. That is the
// operation in the manual (volume 2, TDPBF16PS). A K that is no multiple of 32 counts as one, with zeros as its last elements.

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
/// The way of an order: without the instruction among `isa` it is emulated.
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
