#pragma once

// Weights that lie whole in this rank's memory, the same on every rank of a group: a lease is nothing. Where the optimizer's
// state is cut, each rank updates its part of the weights. All parts go to all ranks while the next leases are on their way.

#include <vector>

#include "comm/communicator.h"
#include "parallel/parameter_memory.h"
#include "parallel/parameter_store.h"
#include "parallel/zero/lease_order.h"

namespace lockstep::parallel {

class ResidentParameters final : public ParameterStore {
 public:
  /// `group`: the ranks that update a part each, where the memory is cut. Both arguments outlive the store.
  ResidentParameters(const ParameterMemory& memory, comm::Communicator& group);

  const std::vector<layout::Unit>& units() const override { return memory_.units; }
  DType dtype() const override { return memory_.storage.type; }
  DType owned_dtype() const override { return memory_.storage.owned(); }
  Lease lease(const layout::Access& access) override;
  bool waits() const override { return group_.size() > 1; }
  void begin(const std::vector<layout::Access>& order) override;
  Shard shard(UnitIndex unit) override;
  /// Collective where the memory is cut.
  void updated(Changed what) override;
  void add_packed(UnitIndex unit, const PackedMatrix& matrix) override;

 private:
  struct Entry {
    layout::Range held;                ///< what this rank updates of the unit
    std::vector<std::int64_t> counts;  ///< elements that each rank of the group updates; empty: this rank updates all
    comm::Request arriving = {};       ///< what the other ranks updated
    std::vector<PackedMatrix> packed = {};
  };
  void release(const layout::Access& access) noexcept override;
  Entry& entry(UnitIndex unit) { return entries_[static_cast<std::size_t>(unit.value)]; }
  const Tensor& weights(UnitIndex unit) const { return memory_.weights[static_cast<std::size_t>(unit.value)]; }

  const ParameterMemory& memory_;
  comm::Communicator& group_;
  std::vector<Entry> entries_;  ///< by unit
  LeaseOrder order_;
};

}  // namespace lockstep::parallel
