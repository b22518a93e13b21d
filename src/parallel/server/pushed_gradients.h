#pragma once

// Gradients that go to the parameter servers unit by unit while the backward pass goes on. They are not reduced over ranks here.

#include "parallel/server/worker.h"
#include "parallel/zero/gradients.h"

namespace lockstep::parallel {

struct PushOptions {
  bool overlap = true;            ///< false: all units are pushed in finish()
  bool tied_parts_apart = false;  ///< a tied matrix's dense part and its rows are pushed as two, for the servers to add
};

class PushedGradients final : public GradientStore {
 public:
  /// `own`: where this worker's gradient accumulates; its group is this rank alone. The tied unit is pushed last, in finish().
  /// Both references outlive the store.
  PushedGradients(ZeroGradients& own, Worker& worker, const PushOptions& options)
      : own_(own), worker_(worker), options_(options) {}

  void begin(int microbatches) override;
  OpenGradient open(UnitIndex unit, Microbatch microbatch) override { return own_.open(unit, microbatch); }
  void expect(const Tensor& tokens) override { own_.expect(tokens); }
  Tensor open_rows(Microbatch microbatch) override { return own_.open_rows(microbatch); }
  void close(UnitIndex unit, Microbatch microbatch) override;
  void finish() override;
  Shard shard(UnitIndex unit) override { return own_.shard(unit); }

 private:
  void push_closed();

  ZeroGradients& own_;
  Worker& worker_;
  PushOptions options_;
  int microbatches_ = 0;
  std::vector<bool> closed_;
  std::size_t next_ = 0;  ///< the next unit to push, in the worker's order
};

}  // namespace lockstep::parallel
