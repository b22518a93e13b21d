#pragma once

// The memory of a rank's weights: what a parameter store works on, declared from sizes and the plan alone, so that it can be
// counted where no store is made.

#include <vector>

#include "layout/state_cut.h"
#include "layout/unit.h"
#include "parallel/parameter_store.h"
#include "tensor/arena.h"

namespace lockstep::parallel {

struct ParameterMemory {
  /// Of the rank at `at`. Throws BrokenRule for a plan that places weights where no store keeps them: today each rank has them
  /// whole, on its device.
  ParameterMemory(std::vector<layout::Unit> all, const WeightStorage& kept, const layout::ParallelPlan& plan,
                  const layout::Coordinates& at = {});
  ParameterMemory(const ParameterMemory&) = delete;
  ParameterMemory& operator=(const ParameterMemory&) = delete;
  /// One flat buffer a unit in `weights_at`; in `masters_at` what this rank updates of its master copy, where there is one.
  void declare(Arena& weights_at, Arena& masters_at);

  std::vector<layout::Unit> units;
  WeightStorage storage;
  layout::StateCut cut;         ///< what this rank updates of each unit
  std::vector<Tensor> weights;  ///< by unit, in the storage's type
  std::vector<Tensor> masters;  ///< by unit, of what is updated here, in f32; empty: the weights are their own
};

}  // namespace lockstep::parallel
