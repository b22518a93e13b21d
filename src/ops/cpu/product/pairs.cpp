#include "ops/cpu/product/pairs.h"

#include <xmmintrin.h>

#include "ops/cpu/isa.h"

namespace lockstep::ops::cpu {
namespace {

// MXCSR: every exception masked, nearest even, denormals in and out are zeros.
constexpr std::uint32_t flushing = 0x1F80 | 0x8040;

}  // namespace

Bf16Way way_of(Bf16Order order, Isa isa) {
  if (order == Bf16Order::automatic) order = usual_bf16_order();
  if (order == Bf16Order::widened) return Bf16Way::widened;
  return resolve(isa) == Isa::avx512_bf16 ? Bf16Way::pairs : Bf16Way::emulated_pairs;
}

FlushedDenormals::FlushedDenormals() : before_(_mm_getcsr()) { _mm_setcsr(flushing); }
FlushedDenormals::~FlushedDenormals() { _mm_setcsr(before_); }

}  // namespace lockstep::ops::cpu
