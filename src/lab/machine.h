#pragma once

// Measures in a moment what this machine can do at best. Speeds are compared with these ceilings.

#include <cstdint>

#include "comm/communicator.h"
#include "device/memory.h"
#include "device/team.h"

namespace lockstep::lab {

/// FLOP/s of single-precision fused multiply-adds on the whole team, in registers, with the widest instructions of this machine.
/// Takes about 30 ms. It is the best of several short samples, since other programs only ever make it slower.
double fma_peak(Team& team);

/// FLOP/s of fused multiply-adds over the next `seconds`. Each worker counts its own over that time, and the rates are added.
/// Figures of the same moments are compared with it.
double fma_rate(Team& team, double seconds);

/// Bytes/s of an update in place as an optimizer does it: four streams are read, and three of them written back. Uses 128 MiB
/// from `memory` for the time of the call. Takes about 0.2 s.
double update_bandwidth(Team& team, MemorySource& memory);

/// The same by all ranks at once, on 128 MiB of each, measured as in triad_bandwidth(). Collective; the same on every rank.
double update_bandwidth(Team& team, MemorySource& memory, comm::Communicator& world);

/// Bytes/s of reading `bytes` again and again, as generating text reads its weights. A cache that holds all of them counts. Reads
/// at most 1 GiB, or a quarter of the free memory, which is taken from `memory` for the time of the call.
double read_bandwidth(Team& team, MemorySource& memory, std::int64_t bytes);

/// Bytes/s of STREAM's triad (a = b + s c, three streams counted) by all ranks at the same time, on 96 MiB of each. It is the
/// best of several passes, each as long as its slowest rank. Collective; the same on every rank. Takes about 0.2 s.
double triad_bandwidth(Team& team, MemorySource& memory, comm::Communicator& world);

/// The largest `seconds` of all ranks, the same on every rank. Collective.
double slowest_of(double seconds, comm::Communicator& world);

}  // namespace lockstep::lab
