#pragma once

// What the ranks of a layout's run send each other in a step.

#include <mutex>

#include "support/counting_world.h"
#include "support/layout_run.h"

namespace lockstep::support {

/// What rank 0's collectives carry in the second step; `sent`: the messages of all ranks.
inline Carried carried_by_a_step(const LayoutRun& run) {
  Carried of_step;
  std::mutex adding;
  comm::run_ranks(run.plan().ranks(), {.timeout = 60}, [&](comm::Communicator& world) {
    Carried carried;
    CountingWorld counting(world, carried);
    LayoutRank rank(run, counting);
    rank.engine().initialise();
    rank.step(0);
    const Carried before = carried;
    rank.step(1);
    const std::lock_guard lock(adding);
    of_step.sent += carried.sent - before.sent;
    if (world.rank() > 0) return;
    of_step.reduced = carried.reduced - before.reduced;
    of_step.scattered = carried.scattered - before.scattered;
    of_step.gathered = carried.gathered - before.gathered;
  });
  return of_step;
}

}  // namespace lockstep::support
