#pragma once

// A unit's weights cut over a group (Rajbhandari et al. 2020). A group of one keeps them whole: a lease is nothing.

#include <cstddef>
#include <vector>

#include "parallel/parameter_store.h"
#include "tensor/arena.h"

namespace lockstep::parallel {

class ZeroParameters final : public ParameterStore {
 public:
  ZeroParameters(std::vector<layout::Unit> units, const WeightStorage& storage);
  /// Declares one flat buffer a unit.
  void declare(Arena& arena);
  /// The same for master copies, where there are any.
  void declare_masters(Arena& arena);
  /// Leases of `unit` carry `matrix` from now on, until updated(). When it lies in the unit's own memory, the shard has it
  /// packed.
  void add_packed(UnitIndex unit, const PackedMatrix& matrix);

  const std::vector<layout::Unit>& units() const override { return units_; }
  DType dtype() const override { return storage_.type; }
  DType owned_dtype() const override { return storage_.owned(); }
  Lease lease(UnitIndex unit, layout::Pass pass) override;
  void begin(const std::vector<layout::Access>& order) override;
  Shard shard(UnitIndex unit) override;
  void updated() override;

 private:
  void release(UnitIndex unit) noexcept override;
  std::vector<layout::Unit> units_;
  WeightStorage storage_;
  std::vector<Tensor> flat_;
  std::vector<Tensor> masters_;                    ///< empty: the weights are their own
  std::vector<std::vector<PackedMatrix>> packed_;  ///< by unit
  std::vector<layout::Access> order_;
  std::size_t next_ = 0;
};

}  // namespace lockstep::parallel
