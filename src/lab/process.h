#pragma once

// What the kernel knows about this process.

#include <cstdint>

namespace lockstep::lab {

/// Seconds since this process started (to 10 ms).
double seconds_since_start();
/// The most memory that this process has had resident, in MiB.
std::int64_t peak_resident_mib();

}  // namespace lockstep::lab
