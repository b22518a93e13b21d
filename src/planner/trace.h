#pragma once

// A simulated step as a trace: what each rank of the pipeline does when, and how its memory grows and shrinks.

#include <vector>

#include "base/chrome_trace.h"
#include "planner/search.h"

namespace lockstep::planner {

struct MemoryPoint {
  double seconds;
  double bytes;  ///< from `seconds` on
};

struct SimulatedStep {
  layout::Timeline timeline;
  StepEnd end;                                   ///< behind the last pass of all ranks
  std::vector<std::vector<MemoryPoint>> memory;  ///< on the device, by rank of the pipeline
  /// A rank's bytes in the host's memory and on its disks, all the time.
  struct Elsewhere {
    std::int64_t host, disk;
  };
  std::vector<Elsewhere> elsewhere;
  double seconds() const { return timeline.makespan + end.replicas + end.optimizer; }
};

/// Simulates a step. Its memory is what the engine declares. Activations grow with a chunk's forward pass and shrink with its
/// backward pass. At the peak of a rank's list all declared activations are in use.
SimulatedStep simulate_step(const Work& work, const Candidate& candidate);

/// A trace with one row for each rank, and counters of its bytes on the device, in the host's memory and on disks.
ChromeTrace chrome_trace(const SimulatedStep& step);

}  // namespace lockstep::planner
