#pragma once

// Divides a step's waiting for other ranks among kinds of operations.

#include "comm/operation.h"
#include "planner/step_time.h"

namespace lockstep::planner {

/// Seconds of waiting by kind of operation. `time` is the candidate's step, and its tensor, messages, bubble, gather and replicas
/// are what is divided. Waiting for another stage, in a bubble too, or for the next rank of a ring counts as receiving.
comm::CollectiveSeconds waiting_by_kind(const Work& work, const Candidate& candidate, const StepTime& time);

}  // namespace lockstep::planner
