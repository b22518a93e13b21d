#pragma once

// The memory of a rank's weights: what a parameter store works on, declared from sizes and the plan alone, so that it can be
// counted where no store is made.

#include <vector>

#include "arch/parts.h"
#include "layout/state_cut.h"
#include "layout/unit.h"
#include "parallel/parameter_store.h"
#include "tensor/arena.h"

namespace lockstep::parallel {

/// Where parts of units are gathered whose ranks keep a part each: places that units of a class use in turns.
struct GatherMemory {
  struct Class {
    std::int64_t elements = 0;       ///< of a place
    std::vector<Tensor> slots = {};  ///< [elements], in the parameters' type
  };
  std::vector<Class> classes = {};
  std::vector<std::size_t> class_of = {};  ///< by unit
  int ahead = 0;                           ///< leases that are gathered before they are asked for
};

struct ParameterMemory {
  /// Of the rank at `at`; where weights are cut, `classes` says what shares places. Throws BrokenRule for a plan that places
  /// weights where no store keeps them: they lie on their device.
  ParameterMemory(std::vector<layout::Unit> all, const WeightStorage& kept, const layout::ParallelPlan& plan,
                  const layout::Coordinates& at = {}, const std::vector<arch::LeaseClass>& classes = {});
  ParameterMemory(const ParameterMemory&) = delete;
  ParameterMemory& operator=(const ParameterMemory&) = delete;
  /// One flat buffer a unit, or this rank's part of it, and places to gather in, in `weights_at`; in `masters_at` what this rank
  /// updates of its master copy, where there is one.
  void declare(Arena& weights_at, Arena& masters_at);

  std::vector<layout::Unit> units;
  WeightStorage storage;
  layout::StateCut cut;         ///< what this rank updates of each unit
  bool sharded;                 ///< that is all that it keeps of the weights, too
  std::vector<Tensor> weights;  ///< by unit, in the storage's type
  GatherMemory gathers;         ///< where weights are cut
  /// By unit, of what is updated here, in f32; empty: the weights are their own, or they lie elsewhere (parallel/offload).
  std::vector<Tensor> masters;

  /// What is updated of a unit, of which the model reads `published`; empty where it lies elsewhere.
  Tensor master(UnitIndex unit, const Tensor& published) const;
};

}  // namespace lockstep::parallel
