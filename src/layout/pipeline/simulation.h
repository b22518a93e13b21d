#pragma once

// What a pipeline's lists cost, without running them: when each pass begins and ends, who waits, and how much each rank keeps.

#include <string>
#include <vector>

#include "layout/pipeline/pipeline_schedule.h"
#include "layout/pipeline/stage_map.h"

namespace lockstep::layout {

/// Seconds (or any unit) of one micro-batch's passes through a rank's whole share of the model, of which a chunk takes its part,
/// and of a message between two ranks.
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
  /// Not empty: these ranks wait for each other for ever. Which pass of each waits for which.
  std::vector<std::string> deadlock;
};

/// `actions`: of each rank. A rank goes through its list in order and waits with a pass for what this needs; messages go
/// meanwhile.
Timeline simulate(const std::vector<std::vector<Action>>& actions, const StageMap& map, const PassSeconds& seconds = {});
/// `stages`: seconds of one micro-batch's passes through each stage, and of a message that it sends.
Timeline simulate(const std::vector<std::vector<Action>>& actions, const StageMap& map, const std::vector<PassSeconds>& stages);

/// The part of all ranks' time, from 0 to 1, in which they wait. Nothing takes no time: 0.
double bubble(const Timeline& timeline);
/// The same of one rank's time, until the last rank is done.
double bubble(const Timeline& timeline, int rank);
/// The most activations that a rank's list keeps at a time, until weight gradients are made: in micro-batches of the rank's whole
/// share of the model, which has `chunks` chunks.
double peak_activations(const std::vector<Action>& actions, int chunks);
/// Messages that the list sends.
int messages_sent(const std::vector<Action>& actions);

}  // namespace lockstep::layout
