#pragma once

// The system's cache of files in memory.

#include "io/file.h"

namespace lockstep::io {

/// Asks the system to forget a file's cached pages that are on the device already. The next read comes from the device. A file
/// system in memory has nothing to forget. Throws as File does.
void drop_cached(const Path& path);

}  // namespace lockstep::io
