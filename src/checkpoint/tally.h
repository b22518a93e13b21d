#pragma once

// What one rank, or all of them, moved of a tensor: how many elements, and their part of the tensor's checksum, which is a sum.

#include <cstdint>
#include <span>

#include "comm/communicator.h"

namespace lockstep::checkpoint {

struct Tally {
  std::uint64_t checksum = 0;  ///< io::checksum of the elements, summed modulo 2^64
  std::int64_t elements = 0;
  /// Several threads at once.
  void add(std::uint64_t checksum_of, std::int64_t count);
};

/// Every tally becomes the sum of all ranks' tallies of the same place. Collective.
void add_over(comm::Communicator& ranks, std::span<Tally> tallies);

}  // namespace lockstep::checkpoint
