#pragma once

// What the ranks of a layout's run send each other in a step.

#include <mutex>

#include "support/layout_run.h"

namespace lockstep::support {

/// The traffic of all ranks in the second step.
inline comm::Traffic traffic_of_a_step(const LayoutRun& run) {
  comm::Traffic of_step;
  std::mutex adding;
  on_layout(run, [&](LayoutRank& rank) {
    rank.engine().initialise();
    rank.step(0);
    const comm::Traffic own = rank.step(1).exchanged;
    const std::lock_guard lock(adding);
    for (std::size_t purpose = 0; purpose < comm::kPurposes; ++purpose) {
      for (std::size_t kind = 0; kind < comm::kCollectives; ++kind) of_step.all[purpose][kind] += own.all[purpose][kind];
    }
  });
  return of_step;
}

/// Bytes that all ranks send in a step by one kind of exchange for one purpose.
inline std::int64_t sent_by_a_step(const LayoutRun& run, comm::Purpose purpose, comm::Collective kind) {
  return traffic_of_a_step(run).at(purpose, kind).sent;
}

}  // namespace lockstep::support
