#pragma once

// What a person means by a folder where runs are asked for: a run's own, or a folder of runs for all runs in it.

#include <vector>

#include "io/file.h"

namespace lockstep::app {

/// `folder` itself where it has a run's settings. Else the runs with metrics that lie in it, at most four folders deep. They are
/// sorted by name, with numbers in names by their values (run-2 before run-10). Empty: nothing in it is a run.
std::vector<io::Path> runs_in(const io::Path& folder);

}  // namespace lockstep::app
