#include "ops/cpu/product/bf16_way.h"

#include "device/cpu/processor.h"
#include "ops/cpu/isa.h"

namespace lockstep::ops::cpu {

Bf16Way way_of(Bf16Order order, Isa isa) {
  if (order == Bf16Order::automatic) order = usual_bf16_order();
  if (order == Bf16Order::widened) return Bf16Way::widened;
  const Isa resolved = resolve(isa);
  if (order == Bf16Order::amx) return resolved == Isa::amx ? Bf16Way::amx : Bf16Way::emulated_amx;
  return resolved == Isa::avx512_bf16 || resolved == Isa::amx ? Bf16Way::pairs : Bf16Way::emulated_pairs;
}

FlushedDenormals::FlushedDenormals() : before_(lockstep::cpu::flush_denormals()) {}
FlushedDenormals::~FlushedDenormals() { lockstep::cpu::restore_arithmetic(before_); }

}  // namespace lockstep::ops::cpu
