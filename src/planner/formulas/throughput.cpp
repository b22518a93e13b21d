#include "planner/formulas/throughput.h"

namespace lockstep::planner {

Throughput throughput(const TimedStep& step) {
  const double forward = 2 * step.parameters * step.positions * step.samples / (step.seconds * step.devices * 1e12);
  return {.hardware = (step.recompute ? 4 : 3) * forward, .model = 3 * forward};
}

}  // namespace lockstep::planner
