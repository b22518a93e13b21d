#pragma once

// Gradients that lie elsewhere when a unit's backward pass is done. Memory has those of a few units, in places that take turns.
// After a unit's last micro-batch its gradient is reduced over ranks. What this rank needs of it goes to the norm and is put
// away. After an earlier micro-batch the rank's own sum is put away. It is read again ahead of the next micro-batch. All of this
// goes on under the backward pass of the units that follow. Sums are made as for gradients in memory, in the same order.

#include <functional>
#include <optional>
#include <vector>

#include "parallel/offload/offload_memory.h"
#include "parallel/zero/gradients.h"

namespace lockstep::parallel {

struct OffloadedGradientMemory {
  /// Throws BrokenRule unless offload_gradients(work).
  void declare(const GradientArenas& arenas, const std::vector<layout::Unit>& units, const GradientWork& work,
               const arch::UnitMap& map, const Spill::Needs& like, Spill& spill);
  bool used() const { return spill != nullptr; }

  Spill* spill = nullptr;
  layout::StateCut cut;
  std::vector<UnitIndex> order;  ///< units that get gradients here
  /// Units that take turns in places. One ring has the blocks, one the ends of the model. A tied matrix has its own, for it waits
  /// for both of its parts.
  struct Ring {
    std::vector<UnitIndex> units;
    std::vector<Mirror> wholes;  ///< u8: a unit's gradient
    std::vector<Mirror> helds;   ///< u8: what this rank needs of it, where that is a part
    bool stays() const { return units.size() <= wholes.size(); }
  };
  std::vector<Ring> rings;
  std::vector<int> sums;   ///< by unit: number in the Spill of its sum between micro-batches; -1: it stays in memory
  std::vector<int> helds;  ///< by unit: number in the Spill of what this rank needs of the last step's gradient
  UnitIndex tied_unit{-1};
  TiedSide side = TiedSide::both;
  std::optional<TiedMatrixMemory> tied;
};

/// Whether gradients of such work can lie elsewhere. Units must be done one after another, and ranks must add up a step's sums.
bool offload_gradients(const GradientWork& work);

class OffloadedGradients final : public GradientStore {
 public:
  /// `complete` gets what this rank needs of each unit's gradient, f32, once it is summed over all ranks. The references outlive
  /// the store.
  using Complete = std::function<void(UnitIndex, const Shard&)>;
  OffloadedGradients(const std::vector<layout::Unit>& units, const arch::UnitMap& map, int microbatches,
                     const OffloadedGradientMemory& memory, const GradientGroups& groups, ops::Ops& ops,
                     const GradientOptions& options, Complete complete);

  void begin(int microbatches) override;
  OpenGradient open(UnitIndex unit, Microbatch microbatch) override;
  void expect(const Tensor& tokens) override;
  Tensor open_rows(Microbatch microbatch) override;
  void close(UnitIndex unit, Microbatch microbatch) override;
  void finish() override;
  /// A shard without a tensor: OffloadedState brings the gradient.
  Shard shard(UnitIndex unit) override { return {{}, entry(unit).held.first}; }
  double exposed_seconds() const override { return exposed_seconds_; }
  double overlappable_seconds() const override { return overlappable_seconds_; }

 private:
  struct Entry {
    std::size_t ring = 0;
    std::int64_t elements = 0;
    layout::Range held = {};
    std::vector<std::int64_t> counts = {};  ///< what each rank needs, where each needs another part
    std::vector<layout::Range> gaps = {};   ///< elements of no parameter
    int opened = 0, closed = 0;             ///< micro-batches of this step that were opened, closed
  };
  /// Where one unit's gradient lies at a time.
  struct Place {
    const Mirror* whole = nullptr;
    const Mirror* held = nullptr;  ///< null: all of it is needed
    UnitIndex unit{-1};
    bool reducing = false;
    comm::Request reduction = {};
    Spill::Move move = {};
  };
  struct Ring {
    std::vector<Place> places;
    std::size_t next = 0;  ///< the place whose turn it is
  };
  Entry& entry(UnitIndex unit) { return entries_[static_cast<std::size_t>(unit.value)]; }
  bool scatters() const { return !memory_.cut.whole() && memory_.cut.copies == 1; }
  Tensor whole(const Place& place);
  Tensor held(const Place& place);
  /// Finds a place for a unit: where it lies, or the next free place. When it `accumulates`, a free place is being filled with
  /// the unit's sum. Null when none is free.
  Place* take_place(UnitIndex unit, bool accumulates);
  void read_ahead(UnitIndex unit, Microbatch microbatch);
  void reduce(Place& place);
  /// Waits for the reduction in `place`, if there is one, and puts the result away.
  void arrived(Place& place);
  void put_away(Place& place);
  /// Waits for whatever is under way in `place`.
  void release(Place& place);

  const OffloadedGradientMemory& memory_;
  std::vector<Entry> entries_;
  std::vector<Ring> rings_;
  comm::Communicator& group_;
  ops::Ops& ops_;
  GradientOptions options_;
  Complete complete_;
  std::optional<arch::TokenTable> table_;  ///< where the rank has one
  std::optional<TiedMatrix> tied_;
  int microbatches_;
  double exposed_seconds_ = 0, overlappable_seconds_ = 0, first_ready_ = 0;
};

}  // namespace lockstep::parallel
