#pragma once

// Curves for Weights & Biases, kept in wandb-history.jsonl of the run's folder, with the keys that the WordPlay run logged there.
// examples/wandb_upload.py sends them.

#include <cstdint>

#include "base/json.h"
#include "io/appended_file.h"
#include "train/report/metrics.h"

namespace lockstep::train {

inline constexpr const char* wandb_history_file = "wandb-history.jsonl";

/// The row of a log line: Training/..., Timing/... and Loss/.... `microbatches`: of a step, on each rank; times of one are their
/// mean. As in WordPlay, Training/loss is divided by them, Training/iter and Timing/iter count the steps done before.
Json wandb_row(const Metrics& metrics, std::int64_t microbatches);
/// The row of an evaluation.
Json wandb_row(const Losses& losses);

class WandbHistory {
 public:
  /// Appends to the folder's file. Steps of it behind `step`, where the run starts or goes on, are superseded. `startup_seconds`
  /// is since the program's start.
  WandbHistory(const io::Path& folder, std::int64_t step, double startup_seconds);
  void add(const Metrics& metrics, std::int64_t microbatches);
  void add(const Losses& losses);

 private:
  void append(Json row, std::int64_t step);
  io::AppendedFile file_;
};

}  // namespace lockstep::train
