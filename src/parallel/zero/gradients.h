#pragma once

// A unit's gradient: accumulated in one flat f32 buffer, reduced over the data-parallel group on the last micro-batch.

#include <vector>

#include "comm/communicator.h"
#include "parallel/gradient_store.h"
#include "tensor/arena.h"

namespace lockstep::parallel {

class ZeroGradients final : public GradientStore {
 public:
  /// `group` outlives the store; gradients are summed over it.
  ZeroGradients(const std::vector<layout::Unit>& units, comm::Communicator& group);
  void declare(Arena& arena);

  void begin(int microbatches) override;
  OpenGradient open(UnitIndex unit, Microbatch microbatch) override;
  void close(UnitIndex unit, Microbatch microbatch) override;
  void finish() override;
  Shard shard(UnitIndex unit) override;

 private:
  struct Entry {
    std::string name;
    std::int64_t elements = 0;
    Tensor flat;
    int opened = 0;  ///< micro-batches that have opened it in this step
    comm::Request reduction;
  };
  Entry& entry(UnitIndex unit) { return entries_[static_cast<std::size_t>(unit.value)]; }
  std::vector<Entry> entries_;
  comm::Communicator& group_;
  int microbatches_ = 0;
};

}  // namespace lockstep::parallel
