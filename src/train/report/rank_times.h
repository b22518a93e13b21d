#pragma once

// How the times of a log line differ over ranks.

#include "comm/communicator.h"
#include "train/report/metrics.h"

namespace lockstep::train {

/// Of the line's times, each rank giving its own; nothing of one rank alone. Collective.
RankTimes gather_times(const Metrics& metrics, comm::Communicator& world);

}  // namespace lockstep::train
