#pragma once

// How much of the processors the control groups of this process grant.

#include <optional>

#include "io/file.h"

namespace lockstep::io {

/// Processors' worth of time, such as 1.5, the least of what the groups (versions 1 and 2) of this process and those above them
/// grant. Nothing: there is no limit. `root`: where /proc and /sys lie.
std::optional<double> cpu_quota(const Path& root = "/");

}  // namespace lockstep::io
