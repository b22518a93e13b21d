#pragma once

// Weights of which each rank keeps a part (ZeRO-3, FSDP). A lease gathers them into one of a few slots. The weights of the next
// leases are gathered while the leased ones are in use. Where a rank's part lies elsewhere (parallel/offload) it is brought
// first, also ahead of the lease. A single rank has all of the weights: they are leased where they were brought to. A rank that
// has pieces of a tile's rows puts them together first, so that gathered parts are always matrices without gaps. A slot keeps its
// part until another part needs the place or the weights change. So a part that is soon leased again is not gathered twice.

#include <cstdint>
#include <vector>

#include "comm/communicator.h"
#include "parallel/parameter_memory.h"
#include "parallel/parameter_store.h"
#include "parallel/zero/lease_order.h"

namespace lockstep::parallel {

class ShardedParameters final : public ParameterStore {
 public:
  /// `group`: the ranks that have a part each, in the order of their parts. A lease begins as a collective over the group, but
  /// does not end as one. `stream`: strided parts are put together in its order. All arguments outlive the store.
  ShardedParameters(const ParameterMemory& memory, comm::Communicator& group, Stream& stream);

  const std::vector<layout::Unit>& units() const override { return memory_.units; }
  DType dtype() const override { return memory_.storage.type; }
  DType owned_dtype() const override { return memory_.storage.owned(); }
  Lease lease(const layout::Access& access) override;
  void begin(const std::vector<layout::Access>& order) override;
  Shard shard(UnitIndex unit) override;
  void updated(Changed what) override;
  /// Throws BrokenRule: no rank keeps a unit whole.
  void add_packed(UnitIndex unit, const PackedMatrix& matrix) override;

  /// The number of elements that were gathered so far, those of this rank included.
  std::int64_t gathered() const { return gathered_; }

 private:
  /// Memory for one part at a time.
  struct Slot {
    const Tensor* memory;                     ///< null: the part is leased where it was brought to
    const Mirror* brought = nullptr;          ///< null: this rank's part lies in memory
    layout::Part part = {UnitIndex{-1}, {}};  ///< what lies there, or is on its way; unit -1: nothing
    Spill::Move bringing = {};
    bool due = false;  ///< the part is to be gathered once it was brought
    Tensor own = {};   ///< what this rank has of the part
    int leases = 0;
    bool awaited = false;   ///< the part was gathered ahead, for a lease to come
    std::int64_t used = 0;  ///< when the slot was leased last, by clock_
    comm::Request arriving = {};
  };
  /// In passes without an announced order: the part `next` that was leased behind `part` the last time.
  struct Follower {
    layout::Part part, next;
  };

  void release(const layout::Access& access) noexcept override;
  std::vector<Slot>& slots_of(const layout::Part& part) { return slots_[memory_.gathers.class_of_part(part)]; }
  Slot* find(const layout::Part& part);
  /// A slot for `part` that no lease holds: the one whose own part is needed last (Belady 1966). Where `awaited` is true, a slot
  /// that was gathered ahead for a lease to come is taken when there is no other. Null when there is none.
  Slot* free_slot(const layout::Part& part, bool awaited);
  /// Whether it is better to give up `slot` than `other`.
  bool rather(const Slot& slot, const Slot& other) const;
  /// Begins to gather `part` into `slot`, or to bring this rank's elements of it first.
  void fetch(Slot& slot, const layout::Part& part);
  void bring(Slot& slot, const layout::Range& mine);
  /// Puts what this rank has of a strided part in its place among that of all ranks.
  void put_together(Slot& slot);
  /// Copies the part's elements among `values`, which are `elements` of the unit, to their place.
  void pick(const Slot& slot, const Tensor& values, const layout::Range& elements);
  /// Waits for what is brought, and begins to gather it where others have the rest.
  void gather(Slot& slot);
  /// A rank's elements of a part, by where they lie in the unit. For a strided part: by where they lie in the part.
  layout::Range share(const layout::Part& part, int rank) const;
  /// The memory of the part that lies in `slot`.
  Tensor leased(const Slot& slot) const { return slot.memory == nullptr ? slot.own : slot.memory->flat(0, slot.part.count()); }
  void look_ahead(const layout::Part& part);
  /// Begins to gather `part` before it is leased. False when there is no place for it.
  bool gather_ahead(const layout::Part& part);
  void learn(const layout::Part& part);
  const layout::Part* follower(const layout::Part& part) const;
  void forget_awaited();
  void wait_for_all();

  const ParameterMemory& memory_;
  comm::Communicator& group_;
  Stream& stream_;
  LeaseOrder order_;
  std::vector<std::vector<Slot>> slots_;  ///< by class
  std::vector<Follower> followers_;
  layout::Part last_ = {UnitIndex{-1}, {}};  ///< leased last, without an announced order
  std::vector<std::int64_t> counts_;
  std::int64_t clock_ = 0, gathered_ = 0;
};

}  // namespace lockstep::parallel
