#pragma once

// The memory of a rank's weights, on which a parameter store works. It is declared from sizes and the plan alone. So it can be
// counted where no store is made.

#include <vector>

#include "arch/parts.h"
#include "layout/state_cut.h"
#include "layout/unit.h"
#include "parallel/offload/offload_memory.h"
#include "parallel/parameter_store.h"
#include "tensor/arena.h"

namespace lockstep::parallel {

/// Memory to gather parts of units in, where each rank keeps a part of a unit. Units of a class use its places in turns.
struct GatherMemory {
  struct Class {
    std::int64_t elements = 0;  ///< of a place
    std::string_view name = "gathered";
    /// Some parts are strided: they are put together from what is brought a range at a time.
    bool strided = false;
    std::int64_t contiguous = 0;       ///< elements of the largest part that is not strided
    std::vector<Tensor> slots = {};    ///< [elements], in the parameters' type; none where one rank brings all of it
    std::vector<Mirror> brought = {};  ///< u8; where weights lie elsewhere: what this rank has of a part, in whole ranges
  };
  std::vector<Class> classes = {};
  static constexpr std::size_t none = static_cast<std::size_t>(-1);
  std::vector<std::size_t> class_of = {}, class_of_tiles = {};  ///< by unit: of all but its tiles, and of its tiles
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
  bool sharded;                 ///< weights are cut or lie elsewhere: the rank keeps only those that it updates
  std::vector<Tensor> weights;  ///< by unit, in the storage's type; empty where they lie elsewhere
  Spill* spill = nullptr;       ///< where weights that lie elsewhere are; null: none do
  std::vector<int> numbers;     ///< by unit: its weights' number in `spill`
  GatherMemory gathers;         ///< where weights are cut, or lie elsewhere
  /// By unit: the master copy of what is updated here, f32, or its lower half, u16. It is empty where the weights are their own
  /// masters, or where masters lie elsewhere (parallel/offload). Units that are not trained have none.
  std::vector<Tensor> masters;

  /// Whether master copies are kept in halves. One half lies in `masters`. The other is the updated part of the weights that the
  /// model reads.
  bool halves() const { return storage.halves && !masters.empty() && tier == layout::Tier::device; }
  /// The part of a unit that is updated here. It begins at element `first`. The model reads it in `published`.
  ParameterStore::Shard shard(UnitIndex unit, const Tensor& published, std::int64_t first) const;

 private:
  /// The most elements that are brought to a place of a class at a time.
  std::int64_t most_brought(std::size_t kind, std::int64_t range) const;
};

}  // namespace lockstep::parallel
