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

/// What a run says is in a file beside its folder.
io::Path log_of(io::Path run_folder);
/// A run in the sweep's folder; nothing where the user stopped it. What a run left there that was cut short is deleted, and so
/// are its checkpoints. Throws UserError where a living run writes into its folder.
std::optional<SweepRun> measure(const SweepPoint& point, const RunPlace& place, const io::Path& sweep);

}  // namespace lockstep::app
