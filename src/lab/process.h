#pragma once

// What the kernel knows about this process.

#include <cstdint>

namespace lockstep::lab {

/// Seconds since the kernel made this process (to 10 ms): loading the program counts. A shell that became this program by exec
/// counts, too.
double seconds_since_start();
/// The most memory that this process has had resident, in MiB: its own (VmHWM), not what started it had, as ru_maxrss tells.
std::int64_t peak_resident_mib();
/// Bytes that programs may still take without pushing others out.
std::int64_t free_memory();

}  // namespace lockstep::lab
