#pragma once

// The log lines of a run. WordPlay's form of a line, with its names, comes every few iterations.

#include <string>
#include <utility>

#include "base/log.h"
#include "train/report/run_listener.h"

namespace lockstep::train {

/// "step=10 loss=3.154310 dt=0.282833 ..."
std::string log_line(const Metrics& metrics);
/// ", 34.1 ms of a step lost to rank 3"; empty where no rank is late.
/// "loss 1.2345"; "no targets" where none was in the step.
std::string loss_in_words(const Metrics& m);
std::string lost_in_words(const std::optional<LateRank>& late);
/// The table titled "Training Legend".
std::string legend();

class LogLines : public RunListener {
 public:
  /// `prompt`: of the samples, as it was typed. The log outlives this.
  LogLines(Log& log, std::string prompt) : log_(log), prompt_(std::move(prompt)) {}
  void step_done(const Metrics& m) override;
  void rank_changed(const LateChange& who, const std::string& host, std::int64_t step) override;
  void logged(const Metrics& m) override;
  void evaluated(const Losses& losses, double begun) override;
  void sampled(const std::optional<std::string>& text) override;
  void saved(const checkpoint::SaveReport& report, std::optional<std::int64_t> beside) override;
  void copied(const checkpoint::SaveReport& report, int hosts, std::int64_t step) override;

 protected:
  Log& log() const { return log_; }

 private:
  Log& log_;
  std::string prompt_;
};

}  // namespace lockstep::train
