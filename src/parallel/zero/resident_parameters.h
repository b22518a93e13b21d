#pragma once

// Weights that lie whole in this rank's memory, the same on every rank of a group: a lease is nothing.

#include <cstddef>
#include <vector>

#include "parallel/parameter_memory.h"
#include "parallel/parameter_store.h"

namespace lockstep::parallel {

class ResidentParameters final : public ParameterStore {
 public:
  /// `memory` outlives the store.
  explicit ResidentParameters(const ParameterMemory& memory) : memory_(memory), packed_(memory.units.size()) {}

  const std::vector<layout::Unit>& units() const override { return memory_.units; }
  DType dtype() const override { return memory_.storage.type; }
  DType owned_dtype() const override { return memory_.storage.owned(); }
  Lease lease(const layout::Access& access) override;
  void begin(const std::vector<layout::Access>& order) override;
  Shard shard(UnitIndex unit) override;
  void updated() override;
  void add_packed(UnitIndex unit, const PackedMatrix& matrix) override;

 private:
  void release(const layout::Access& access) noexcept override;
  const ParameterMemory& memory_;
  std::vector<std::vector<PackedMatrix>> packed_;  ///< by unit
  std::vector<layout::Access> order_;
  std::size_t next_ = 0;
};

}  // namespace lockstep::parallel
