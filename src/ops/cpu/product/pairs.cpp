#include "ops/cpu/product/pairs.h"

#include <xmmintrin.h>

#include "base/error.h"
#include "ops/cpu/isa.h"

namespace lockstep::ops::cpu {
namespace {

// MXCSR: every exception masked, nearest even, denormals in and out are zeros.
constexpr std::uint32_t flushing = 0x1F80 | 0x8040;

}  // namespace

Bf16Order resolve(Bf16Order order, Isa isa) {
  const Isa resolved = resolve(isa);
  if (order == Bf16Order::automatic) return resolved == Isa::avx512_bf16 ? Bf16Order::pairs : Bf16Order::widened;
  ensure(order != Bf16Order::pairs || resolved == Isa::avx512_bf16, "pairs of bf16 are added by AVX-512-bf16");
  ensure(order != Bf16Order::emulated_pairs || resolved != Isa::baseline, "the emulation has fused multiply-adds");
  return order;
}

FlushedDenormals::FlushedDenormals() : before_(_mm_getcsr()) { _mm_setcsr(flushing); }
FlushedDenormals::~FlushedDenormals() { _mm_setcsr(before_); }

}  // namespace lockstep::ops::cpu
