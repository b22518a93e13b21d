#pragma once

// One step's tokens, loss, gradients and weights as a file of the run's folder (train.dump_step).

#include "base/log.h"
#include "train/report/run_listener.h"
#include "train/state.h"

namespace lockstep::train {

class StepDump final : public RunListener {
 public:
  /// Dumps step `step`, counted from 0. `engine` and `log` outlive this.
  StepDump(const io::Path& folder, std::int64_t step, Engine& engine, Log& log)
      : file_(folder / ("dump_step_" + std::to_string(step) + ".safetensors")), step_(step), engine_(engine), log_(log) {}
  void step_taken(std::int64_t step, const data::StepBatches& batches, const StepResult& result) override {
    if (step != step_) return;
    dump_step(file_, engine_, batches.microbatches, result.loss);
    log_.info("Wrote step " + std::to_string(step) + " to " + file_.string());
  }

 private:
  io::Path file_;
  std::int64_t step_;
  Engine& engine_;
  Log& log_;
};

}  // namespace lockstep::train
