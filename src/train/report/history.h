#pragma once

// The history of a run, from which its summary is made.

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "base/terminal.h"
#include "train/report/run_listener.h"

namespace lockstep::train {

struct TrainingHistory : RunEnd {
  Series train{"train", {}, {}};            ///< loss by step
  Series validation{"validation", {}, {}};  ///< loss by step
  std::string sample;                       ///< the last text, prompt included; on rank 0
  double tokens_per_second = 0;             ///< median over the steps of this run
  std::optional<io::Path> checkpoint;       ///< the last one
  StepResult last;                          ///< this rank's last step
};

/// Fills a TrainingHistory, which outlives the keeper.
class HistoryKeeper final : public RunListener {
 public:
  explicit HistoryKeeper(TrainingHistory& history) : history_(history) {}
  void started(const RunState& state) override {
    if (state.step > 0 && state.validation_loss) add(history_.validation, state.step, *state.validation_loss);
  }
  void step_done(const Metrics& m) override {
    rates_.push_back(m.tps);
    history_.last = static_cast<const StepResult&>(m);
    if (has_loss(m)) add(history_.train, m.step, m.loss);
  }
  void evaluated(const Losses& losses, double /*begun*/) override { add(history_.validation, losses.step, losses.validation); }
  void sampled(const std::optional<std::string>& text) override {
    if (text) history_.sample = *text;
  }
  void saved(const checkpoint::SaveReport& report, std::optional<std::int64_t> /*beside*/) override {
    history_.checkpoint = report.folder;
  }
  void finished(const RunEnd& end) override {
    static_cast<RunEnd&>(history_) = end;
    if (rates_.empty()) return;
    const auto middle = rates_.begin() + static_cast<std::ptrdiff_t>(rates_.size() / 2);
    std::nth_element(rates_.begin(), middle, rates_.end());
    history_.tokens_per_second = *middle;
  }

 private:
  static void add(Series& series, std::int64_t step, double loss) {
    series.x.push_back(static_cast<double>(step));
    series.y.push_back(loss);
  }
  TrainingHistory& history_;
  std::vector<double> rates_;
};

}  // namespace lockstep::train
