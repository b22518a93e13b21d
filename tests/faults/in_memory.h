#pragma once

// Folders of tests in memory. Thousands of runs sync their files, and these tests do not ask a device what a sync is worth.

#include <unistd.h>

#include <cstdlib>

namespace lockstep::faults {

/// TempFolder's folders are made where files are kept in memory, if there is such a place and no other was asked for.
inline void keep_folders_in_memory() {
  if (::access("/dev/shm", W_OK | X_OK) == 0) ::setenv("TMPDIR", "/dev/shm", 0);
}

}  // namespace lockstep::faults
