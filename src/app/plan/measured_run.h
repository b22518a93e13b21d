#pragma once

// A run as its folder tells it: what it took, and how long its steps were.

#include <cstdint>

#include "app/settings/run_config.h"
#include "app/start/resources.h"
#include "comm/operation.h"
#include "io/file.h"

namespace lockstep::app {

/// Seconds of a step on rank 0, medians over the lines of metrics.jsonl but the first one, whose step warms everything up.
struct StepSeconds {
  double forward = 0, backward = 0;     ///< passes of all micro-batches
  double exposed = 0;                   ///< waiting for gradients of other ranks
  double update = 0;                    ///< the rest of what follows the last pass
  double step = 0;                      ///< all of it, but for waiting for data
  double bubble = 0;                    ///< of a pipeline: outside of passes, mean over ranks
  comm::CollectiveSeconds waited = {};  ///< for other ranks, in all of these; nothing: an older version made the run
};

struct MeasuredRun {
  io::Path folder;
  RunConfig config;
  Resources resources;
  StepSeconds seconds;
  std::int64_t lines = 0;  ///< lines of metrics
};

/// Throws UserError for a folder that is no run's, has no metrics, or whose ranks do not update together (parameter servers).
MeasuredRun read_run(const io::Path& folder);

}  // namespace lockstep::app
