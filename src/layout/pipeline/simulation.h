#pragma once

// What a pipeline's lists cost, without running them: when each pass begins and ends, who waits, and how much each rank keeps.

#include <string>
#include <vector>

#include "layout/pipeline/pipeline_schedule.h"
#include "layout/pipeline/stage_map.h"

namespace lockstep::layout {

/// Seconds (or any unit) of one micro-batch's passes, and of a message between two ranks. The passes go through a rank's whole
/// share of the model. Each chunk takes an even part of their time.
struct PassSeconds {
  double forward = 1, input_backward = 1, weight_backward = 1;
  double message = 0;
};

struct TimedPass {
  Action action;
  double start, end;
};

struct Timeline {
  std::vector<std::vector<TimedPass>> ranks;  ///< of each rank, in order; messages are left out
  double makespan = 0;                        ///< until the last rank is done
  /// Not empty: ranks wait for each other for ever. Each text says which pass of a rank waits for which.
  std::vector<std::string> deadlock;
};

/// Runs the lists of all ranks, `actions`, in simulated time. A rank goes through its list in order. Each pass waits for what it
/// needs. Messages go meanwhile.
Timeline simulate(const std::vector<std::vector<Action>>& actions, const StageMap& map, const PassSeconds& seconds = {});
/// As above, with seconds by stage: of one micro-batch's passes through the stage, and of a message that the stage sends.
Timeline simulate(const std::vector<std::vector<Action>>& actions, const StageMap& map, const std::vector<PassSeconds>& stages);

/// The part of all ranks' time, from 0 to 1, in which they wait. It is 0 for an empty timeline.
double bubble(const Timeline& timeline);
/// The part of one rank's time in which it waits, until the last rank is done.
double bubble(const Timeline& timeline, int rank);
/// The most activations that a rank's list keeps at a time, until weight gradients are made. The unit is one micro-batch's
/// activations of the rank's whole share of the model, which has `chunks` chunks.
double peak_activations(const std::vector<Action>& actions, int chunks);
/// Messages that the list sends.
int messages_sent(const std::vector<Action>& actions);

}  // namespace lockstep::layout
