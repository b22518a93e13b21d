#pragma once

// A short copy of a run: its settings, data and layout, with few steps and a checkpoint every few of them.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "app/drill/drill_faults.h"
#include "app/settings/run_config.h"

namespace lockstep::app {

struct DrillRequest {
  std::string run, hostfile;  ///< a run's folder, or that of one of its checkpoints
  std::optional<std::int64_t> ranks;
  std::vector<std::string> settings;  ///< of the copy, on top of the run's
  std::int64_t latest_fault = 0;      ///< step of the latest fault
};

struct DrillCopy {
  RunConfig config;
  std::int64_t ranks = 1;   ///< servers included
  double run_timeout = 0;   ///< comm.timeout of the run itself, seconds
  std::string hostfile;     ///< empty: none
  DrillGround ground = {};  ///< what can be disturbed
};

/// Throws UserError with all that is wrong: no run, settings, ranks, hosts.
DrillCopy copy_of(const DrillRequest& request);

}  // namespace lockstep::app
