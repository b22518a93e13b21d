#pragma once

// The lines of log.style=plain: evaluations, and between them a step now and then.

#include <cstdint>

#include "train/report/log_lines.h"

namespace lockstep::train {

class PlainLines final : public LogLines {
 public:
  /// `steps`: where the run ends. The log outlives the object.
  PlainLines(Log& log, std::int64_t steps) : LogLines(log, ""), steps_(steps) {}
  void started(const RunState& state) override;
  void logged(const Metrics& m) override;
  void evaluated(const Losses& losses, double begun) override;
  void sampled(const std::optional<std::string>& /*text*/) override {}

 private:
  std::int64_t steps_, first_ = 0;
  double began_ = 0, said_ = 0;  ///< by now_seconds()
};

}  // namespace lockstep::train
