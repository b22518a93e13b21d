#include "ops/cpu/product/pairs.h"

#include "device/cpu/processor.h"
#include "ops/cpu/isa.h"

namespace lockstep::ops::cpu {

Bf16Way way_of(Bf16Order order, Isa isa) {
  if (order == Bf16Order::automatic) order = usual_bf16_order();
  if (order == Bf16Order::widened) return Bf16Way::widened;
  return resolve(isa) == Isa::avx512_bf16 ? Bf16Way::pairs : Bf16Way::emulated_pairs;
}

FlushedDenormals::FlushedDenormals() : before_(lockstep::cpu::flush_denormals()) {}
FlushedDenormals::~FlushedDenormals() { lockstep::cpu::restore_arithmetic(before_); }

}  // namespace lockstep::ops::cpu
