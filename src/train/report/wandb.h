#pragma once

// Curves for Weights & Biases, kept in wandb-history.jsonl of the run's folder, with the keys that the WordPlay run logged there.
// examples/wandb_upload.py sends them.

#include <cstdint>

#include "base/json.h"
#include "io/appended_file.h"
#include "train/report/run_listener.h"

namespace lockstep::train {

inline constexpr const char* wandb_history_file = "wandb-history.jsonl";

class WandbHistory final : public RunListener {
 public:
  /// Appends to the folder's file. Its steps behind `step`, where the run starts or goes on, are superseded. `startup_seconds`
  /// counts from the program's start. `microbatches`: of a step, on each rank. Times of one micro-batch are the step's mean.
  WandbHistory(const io::Path& folder, std::int64_t step, double startup_seconds, std::int64_t microbatches);
  void logged(const Metrics& metrics) override;
  void kept(const Losses& losses) override;

 private:
  void append(Json row, std::int64_t step);
  io::AppendedFile file_;
  double microbatches_;
};

}  // namespace lockstep::train
