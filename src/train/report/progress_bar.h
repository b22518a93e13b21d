#pragma once

// A run at a terminal: a progress bar.

#include <cstdio>

#include "base/log.h"
#include "base/terminal.h"
#include "train/report/run_listener.h"

namespace lockstep::train {

class RunBar final : public RunListener {
 public:
  /// `steps`: where the run ends. Lines of the log are printed above the bar; the log outlives it.
  RunBar(Log& log, std::int64_t steps) : log_(log), bar_(stdout, "training", static_cast<double>(steps)) {}
  ~RunBar() override { log_.set_guard(nullptr); }
  void started(const RunState& /*state*/) override { log_.set_guard(&bar_); }
  void step_done(const Metrics& m) override;
  void finished(const RunEnd& /*end*/) override {
    log_.set_guard(nullptr);
    bar_.finish();
  }

 private:
  Log& log_;
  ProgressBar bar_;
};

}  // namespace lockstep::train
