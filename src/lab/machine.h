#pragma once

// What this machine can do at best, measured in a moment: the ceilings that speeds are compared with.

#include <cstdint>

#include "comm/communicator.h"
#include "device/memory.h"
#include "device/team.h"

namespace lockstep::lab {

/// FLOP/s of single-precision fused multiply-adds on the whole team, in registers, with the widest instructions that this
/// machine has. Takes about 30 ms; the best of several short samples, since other programs only ever make it slower.
double fma_peak(Team& team);

/// FLOP/s of the same over the next `seconds`: each worker counts its own over that time, the rates are added. What a figure of
/// these moments is a share of.
double fma_rate(Team& team, double seconds);

/// Bytes/s of an update in place as an optimizer does it: four streams are read, and three of them written back. Uses 128 MiB
/// from `memory` for the time of the call. Takes about 0.2 s.
double update_bandwidth(Team& team, MemorySource& memory);

/// Likewise by all ranks at the same time, on 128 MiB of each, as triad_bandwidth() does it. Collective; the same on every rank.
double update_bandwidth(Team& team, MemorySource& memory, comm::Communicator& world);

/// Bytes/s of reading `bytes` again and again, as generating text reads its weights: a cache that holds them all counts. At most
/// 1 GiB, or a quarter of the free memory, is read. Taken from `memory` for the time of the call.
double read_bandwidth(Team& team, MemorySource& memory, std::int64_t bytes);

/// Bytes/s of STREAM's triad (a = b + s c, three streams counted) by all ranks at the same time, on 96 MiB of each. It is the
/// best of several passes, each as long as its slowest rank. Collective; the same on every rank. Takes about 0.2 s.
double triad_bandwidth(Team& team, MemorySource& memory, comm::Communicator& world);

/// `seconds` of the rank that took longest, the same on every rank. Collective.
double slowest_of(double seconds, comm::Communicator& world);

}  // namespace lockstep::lab
