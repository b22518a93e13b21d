#include "lab/ladder/product_share.h"

#include "lab/step/floor.h"

namespace lockstep::lab {

double product_share(const StepShape& shape, Runtime& runtime, ops::Isa isa, const ops::PlainKernels& kernels) {
  GemmBench bench(runtime, {.rounds = 5, .rivals = false, .plain = kernels, .isa = isa});
  double flops = 0, room = 0;
  for (const StepProduct& product : step_products(model_of(shape), shape.samples, shape.positions)) {
    if (product.role == ProductRole::scores || product.role == ProductRole::values) continue;
    flops += product.flops();
    room += product.count * measure_layer(bench, product).ours.room;
  }
  return flops / room;
}

}  // namespace lockstep::lab
