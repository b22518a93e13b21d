#pragma once

// Every layout that a machine, a model and a batch allow.

#include <functional>

#include "planner/step_time.h"

namespace lockstep::planner {

struct SearchQuestion {
  Work work;
  std::int64_t global_batch = 1024;  ///< samples of a step
};

/// Calls take(candidate) for each layout. Degrees divide the machine's ranks: tensor ranks inside a node, context ranks where
/// samples are long. A micro-batch has a power of two of samples, or any divisor where these are few, or all of a rank's. Every
/// schedule, ZeRO stage, place of state, recomputation and tiling is tried. Stages are cut so that their ranks have equal work.
void enumerate(const SearchQuestion& question, const std::function<void(const Candidate&)>& take);

}  // namespace lockstep::planner
