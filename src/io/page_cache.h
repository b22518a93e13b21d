#pragma once

// What the system keeps of files in memory.

#include "io/file.h"

namespace lockstep::io {

/// Asks the system to forget what it has cached of a file, as far as it is on the device: the next read comes from there. A file
/// system in memory has nothing to forget. Throws as File does.
void drop_cached(const Path& path);

}  // namespace lockstep::io
