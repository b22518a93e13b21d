#pragma once

// Figures of this process from the kernel.

#include <cstdint>

namespace lockstep::lab {

/// Seconds since the kernel made this process (to 10 ms). Loading the program counts. So does the time of a shell that became
/// this program by exec.
double seconds_since_start();
/// The most resident memory of this process, in MiB (VmHWM). ru_maxrss would count the program that started this one, too.
std::int64_t peak_resident_mib();
/// Bytes of memory that programs may still take without pushing others out.
std::int64_t free_memory();

}  // namespace lockstep::lab
