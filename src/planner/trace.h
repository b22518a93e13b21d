#pragma once

// A step that was simulated, to look at: what each rank of the pipeline does when, and how its memory goes up and down.

#include <vector>

#include "base/chrome_trace.h"
#include "planner/search.h"

namespace lockstep::planner {

struct MemoryPoint {
  double seconds;
  double bytes;  ///< from then on
};

struct SimulatedStep {
  layout::Timeline timeline;
  StepEnd end;                                   ///< behind the last pass of all ranks
  std::vector<std::vector<MemoryPoint>> memory;  ///< of a device of each rank of the pipeline
  /// What the rank has in the host's memory and on its disks all the time.
  struct Elsewhere {
    std::int64_t host, disk;
  };
  std::vector<Elsewhere> elsewhere;
  double seconds() const { return timeline.makespan + end.replicas + end.optimizer; }
};

/// Memory is what the engine declares. Activations go up with a chunk's forward pass and down with its backward pass. All of them
/// are there at the peak of each rank's list.
SimulatedStep simulate_step(const Work& work, const Candidate& candidate);

/// A row a rank, and counters of its device's bytes and of those that it has elsewhere.
ChromeTrace chrome_trace(const SimulatedStep& step);

}  // namespace lockstep::planner
