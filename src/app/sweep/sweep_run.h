#pragma once

// One point of a sweep: whether there is memory for it, and one run of it.

#include <optional>
#include <vector>

#include "app/sweep/sweep_plan.h"
#include "app/sweep/sweep_results.h"
#include "io/file.h"

namespace lockstep::app {

/// What the point's ranks lack; they declare what they would take. Its data is prepared.
std::vector<Problem> lacking_memory(const SweepPoint& point);

/// The file beside a run's folder that gets what the run says.
io::Path log_of(io::Path run_folder);
/// Runs the point in the sweep's folder; nothing where the user stopped it. What a run that was cut short left there is deleted
/// before. The run's checkpoints are deleted afterwards. Throws UserError where a living run writes into its folder.
std::optional<SweepRun> measure(const SweepPoint& point, const RunPlace& place, const io::Path& sweep);

}  // namespace lockstep::app
