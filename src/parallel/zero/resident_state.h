#pragma once

// Training state that lies in this rank's memory. Every rank of a group has all of it, or an even part of each unit. Visits find
// it in place: they bring nothing and write nothing back.

#include <optional>

#include "comm/communicator.h"
#include "layout/state_cut.h"
#include "parallel/gradient_store.h"
#include "parallel/parameter_store.h"
#include "parallel/training_state.h"
#include "tensor/arena.h"
#include "tensor/host_pieces.h"

namespace lockstep::parallel {

/// A hash of tensors, one behind the other. Ranks compare what they have by it.
class StateHash {
 public:
  /// `pieces` brings tensors from their device; null: the host has them. It outlives this.
  explicit StateHash(const HostPieces* pieces = nullptr) : pieces_(pieces) {}
  void add(const Tensor& tensor);
  /// Adds a part of state that ranks may divide in different ways. `first`: the number of its first element in all that is
  /// hashed. Parts come in any order. A hash gets either parts or whole tensors by add(), not both.
  void add_part(const Tensor& tensor, std::int64_t first);
  /// Throws SystemError on every rank unless all that are `compared` have added the same bits. Collective.
  void demand_alike(comm::Communicator& group, bool compared = true) const;

 private:
  std::uint64_t checksum(const Tensor& tensor, std::int64_t first) const;

  const HostPieces* pieces_;
  std::uint64_t hash_ = 0;
};
/// Every rank of `group` takes rank 0's tensors. The ranks then compare what they have. Collective.
void broadcast_checked(comm::Communicator& group, std::span<const Tensor> tensors);

/// What an optimizer keeps for each weight on a rank; zero at the start.
struct SlotMemory {
  /// Declares slots for the part of each of the units `of` that `cut` leaves this rank. Units that are not trained get none.
  void declare(Arena& arena, const std::vector<layout::Unit>& of, const layout::StateCut& cut = {});

  DType type = DType::f32;                 ///< f32 or bf16
  std::vector<std::string> names;          ///< in the order of TrainingState::slots()
  std::vector<std::vector<Tensor>> units;  ///< by unit, then name; empty: this rank keeps none
};

/// What resident state is made of.
struct ResidentParts {
  ParameterStore& parameters;
  GradientStore& gradients;
  const SlotMemory& slots;
  comm::Communicator& group;           ///< the ranks with the same part of the state
  layout::StateCut cut;                ///< as the stores and slots are cut
  const HostPieces* pieces = nullptr;  ///< bring tensors from their device; null: the host has them
};

class ResidentState : public TrainingState {
 public:
  /// Who has slots: every rank of the group, or rank 0 alone, which then answers for all of them.
  enum class SlotsOn : std::uint8_t { all_ranks, rank0 };
  /// `slots`: declared where this rank has them. `group`: the ranks with the same state. The references outlive this.
  ResidentState(ParameterStore& parameters, GradientStore& gradients, const SlotMemory& slots, comm::Communicator& group,
                SlotsOn slots_on = SlotsOn::all_ranks)
      : parameters_(parameters),
        gradients_(gradients),
        slots_(slots),
        group_(group),
        cut_({.parts = 1, .copies = group.size(), .replica = group.rank()}),
        slots_on_(slots_on) {}
  explicit ResidentState(const ResidentParts& parts)
      : parameters_(parts.parameters),
        gradients_(parts.gradients),
        slots_(parts.slots),
        group_(parts.group),
        cut_(parts.cut),
        slots_on_(SlotsOn::all_ranks),
        pieces_(parts.pieces) {}

  const std::vector<layout::Unit>& units() const override { return parameters_.units(); }
  const std::vector<std::string>& slots() const override { return slots_.names; }
  DType type() const override { return parameters_.owned_dtype(); }
  int share_of(int rank) const override { return cut_.share_of(rank); }
  DType slot_type() const override { return slots_.type; }
  void distribute(std::int64_t step) override;
  void gather() override;
  void check_copies() override;
  void collect() override {}
  /// A range that has this rank's gradient of a unit alone, for use outside of a visit.
  StateRange of_gradient(UnitIndex unit, const GradientStore::Shard& gradient) const;

 protected:
  bool has_slots() const { return !slots_.units.empty(); }
  /// What this rank has in memory of a unit's slots, by name. Empty where it has none, and for units that are not trained.
  std::span<const Tensor> slots_of(UnitIndex unit) const;
  comm::Communicator& group() const { return group_; }
  /// What a rank has of a unit.
  layout::Range held(UnitIndex unit) const;
  /// Visits what lies in memory.
  void visit_memory(const Use& use, Call call, void* body);
  /// The tensors of a unit's range that lie in memory, without slots.
  StateRange range_in_memory(UnitIndex unit, const Use& use, const layout::Range& range);
  /// Whether a visit comes to the unit: one that is not trained has no gradient.
  bool is_visited(UnitIndex unit, const Use& use) const {
    return !use.gradients || units()[static_cast<std::size_t>(unit.value)].trained;
  }
  /// Tells the store that a visit changed weights.
  void changed(const Use& use) {
    if (use.slots_alone) return;
    parameters_.updated(use.gradients ? ParameterStore::Changed::trained : ParameterStore::Changed::all);
  }

 private:
  void visit(const Use& use, Call call, void* body) override { visit_memory(use, call, body); }
  /// Calls use(tensor) for what every rank of the group has.
  template <class Body>
  void for_each_copy(bool changes, const Body& use);

  ParameterStore& parameters_;
  GradientStore& gradients_;
  const SlotMemory& slots_;
  comm::Communicator& group_;
  layout::StateCut cut_;
  SlotsOn slots_on_;
  const HostPieces* pieces_ = nullptr;
};

}  // namespace lockstep::parallel
