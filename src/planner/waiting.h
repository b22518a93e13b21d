#pragma once

// Which operations a step's waiting for other ranks belongs to.

#include "comm/operation.h"
#include "planner/step_time.h"

namespace lockstep::planner {

/// The waiting of `time`, a step of the candidate, by kind of operation: it adds up to its tensor, messages, bubble, gather and
/// replicas. What comes from another stage or from the next rank of a ring is received, and so is waited for in a bubble.
comm::CollectiveSeconds waiting_by_kind(const Work& work, const Candidate& candidate, const StepTime& time);

}  // namespace lockstep::planner
