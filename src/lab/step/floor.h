#pragma once

// The least time that a training step can take on this machine. Its products go at the best rate that any library here (ours,
// oneDNN, OpenBLAS) reaches for their shapes. The optimizer's bytes go at the memory's bandwidth. Everything else a step does
// would have to cost nothing.

#include <vector>

#include "device/runtime.h"
#include "lab/bench_gemm.h"
#include "lab/step/step_products.h"
#include "lab/step/step_shapes.h"
#include "ops/cpu/options.h"
#include "parallel/parameter_store.h"

namespace lockstep::lab {

struct FloorProduct {
  StepProduct product;
  double seconds;  ///< of one product, by the fastest contender
  double step_seconds() const { return product.count * seconds; }
};

struct Floor {
  std::vector<FloorProduct> products = {};
  double optimizer_seconds = 0;
  double bandwidth = 0;  ///< bytes/s behind optimizer_seconds
  double seconds() const;
};

/// Measures one product of a layer in a step.
GemmRow measure_layer(GemmBench& bench, const StepProduct& product);

/// Measures every shape for a moment in `rounds` rounds and takes the best: 5 to 20 seconds in all. The floor is to be compared
/// only with steps timed just before or after.
Floor measure_floor(const StepShape& shape, const parallel::WeightStorage& weights, Runtime& runtime, ops::Isa isa,
                    int rounds = 3);

}  // namespace lockstep::lab
