#pragma once

// A unit's weights cut over a group (Rajbhandari et al. 2020). A group of one keeps them whole: a lease is nothing.

#include <cstddef>
#include <vector>

#include "parallel/parameter_store.h"
#include "tensor/arena.h"

namespace lockstep::parallel {

class ZeroParameters final : public ParameterStore {
 public:
  explicit ZeroParameters(std::vector<layout::Unit> units);
  /// Declares one flat f32 buffer a unit.
  void declare(Arena& arena);

  const std::vector<layout::Unit>& units() const override { return units_; }
  Lease lease(UnitIndex unit, layout::Pass pass) override;
  void begin(const std::vector<layout::Access>& order) override;
  Shard shard(UnitIndex unit) override;
  void updated() override {}

 private:
  void release(UnitIndex unit) noexcept override;
  std::vector<layout::Unit> units_;
  std::vector<Tensor> flat_;
  std::vector<layout::Access> order_;
  std::size_t next_ = 0;
};

}  // namespace lockstep::parallel
