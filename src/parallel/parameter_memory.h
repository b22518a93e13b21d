#pragma once

// The memory of a rank's weights: what a parameter store works on, declared from sizes and the plan alone, so that it can be
// counted where no store is made.

#include <vector>

#include "arch/parts.h"
#include "layout/state_cut.h"
#include "layout/unit.h"
#include "parallel/offload/offload_memory.h"
#include "parallel/parameter_store.h"
#include "tensor/arena.h"

namespace lockstep::parallel {

/// Where parts of units are gathered whose ranks keep a part each: places that units of a class use in turns.
struct GatherMemory {
  struct Class {
    std::int64_t elements = 0;  ///< of a place
    std::string_view name = "gathered";
    /// Some parts are put together, from what is brought a range at a time.
    bool strided = false;
    std::int64_t contiguous = 0;       ///< elements of the largest of the others
    std::vector<Tensor> slots = {};    ///< [elements], in the parameters' type; none where one rank brings all of it
    std::vector<Mirror> brought = {};  ///< u8; where weights lie elsewhere: what this rank has of a part, in whole ranges
  };
  std::vector<Class> classes = {};
  static constexpr std::size_t none = static_cast<std::size_t>(-1);
  std::vector<std::size_t> class_of = {}, class_of_tiles = {};  ///< by unit: of its tiles, and of what else it has
  std::size_t class_of_part(const layout::Part& part) const {
    return (part.tile() ? class_of_tiles : class_of)[static_cast<std::size_t>(part.unit.value)];
  }
  int ahead = 0;  ///< leases that are gathered before they are asked for
};

struct ParameterMemory {
  /// `at`: the rank's place in the plan. `classes`: which units share places, where weights are cut or lie elsewhere. Throws
  /// BrokenRule where weights lie elsewhere and several ranks keep all of them.
  ParameterMemory(std::vector<layout::Unit> all, const WeightStorage& kept, const layout::ParallelPlan& plan,
                  const layout::Coordinates& at = {}, const std::vector<arch::LeaseClass>& classes = {});
  ParameterMemory(const ParameterMemory&) = delete;
  ParameterMemory& operator=(const ParameterMemory&) = delete;
  /// `weights_at` gets one flat buffer a unit, or this rank's part of it, and places to gather in. `masters_at` gets what this
  /// rank updates of its master copy, where there is one. Weights that the plan places elsewhere lie in `elsewhere`, in ranges of
  /// `range` elements.
  void declare(Arena& weights_at, Arena& masters_at, Spill* elsewhere = nullptr, std::int64_t range = 0);

  std::vector<layout::Unit> units;
  WeightStorage storage;
  layout::StateCut cut;         ///< what this rank updates of each unit
  layout::Tier tier;            ///< where the weights lie
  bool sharded;                 ///< that is all that it keeps of the weights, too
  std::vector<Tensor> weights;  ///< by unit, in the storage's type; empty where they lie elsewhere
  Spill* spill = nullptr;       ///< elsewhere
  std::vector<int> numbers;     ///< by unit, in it
  GatherMemory gathers;         ///< where weights are cut, or lie elsewhere
  /// By unit, of what is updated here, in f32, or their lower halves, u16; empty: the weights are their own, or masters lie
  /// elsewhere (parallel/offload). Units that are not trained have none.
  std::vector<Tensor> masters;

  /// Master copies are kept in halves: those of `masters`, and of what the model reads what is updated here.
  bool halves() const { return storage.halves && !masters.empty() && tier == layout::Tier::device; }
  /// What is updated of a unit, of which the model reads `published` from element `first` on.
  ParameterStore::Shard shard(UnitIndex unit, const Tensor& published, std::int64_t first) const;

 private:
  /// Elements that are brought to a place of a class at a time, at most.
  std::int64_t most_brought(std::size_t kind, std::int64_t range) const;
};

}  // namespace lockstep::parallel
