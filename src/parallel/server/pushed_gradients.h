#pragma once

// Gradients that go to the parameter servers unit by unit while backward goes on, instead of being reduced over ranks here.

#include "parallel/server/worker.h"
#include "parallel/zero/gradients.h"

namespace lockstep::parallel {

class PushedGradients final : public GradientStore {
 public:
  /// `own`: where this worker's gradient accumulates; its group is this rank alone. The tied unit is not pushed: whoever
  /// completes it does that, after finish(). `overlap` false: all are pushed in finish(). Both outlive the store.
  PushedGradients(ZeroGradients& own, Worker& worker, bool overlap) : own_(own), worker_(worker), overlap_(overlap) {}

  void begin(int microbatches) override;
  OpenGradient open(UnitIndex unit, Microbatch microbatch) override { return own_.open(unit, microbatch); }
  void close(UnitIndex unit, Microbatch microbatch) override;
  void finish() override;
  Shard shard(UnitIndex unit) override { return own_.shard(unit); }

 private:
  void push_closed();

  ZeroGradients& own_;
  Worker& worker_;
  bool overlap_;
  int microbatches_ = 0;
  std::vector<bool> closed_;
  std::size_t next_ = 0;  ///< of the worker's order
};

}  // namespace lockstep::parallel
