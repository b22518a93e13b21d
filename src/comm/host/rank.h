#pragma once

// What the groups of one rank share: the roll of the run, the shared memory, and how to wait. Used by the rank's thread alone.

#include <functional>
#include <limits>
#include <vector>

#include "comm/host/board.h"

namespace lockstep {
class MemorySource;
class Stream;
class Team;
}  // namespace lockstep

namespace lockstep::comm::host {

class HostCommunicator;
class Staging;

struct Rank {
  int number = 0;  ///< in the world
  Roll roll;
  SharedMemory& memory;
  double timeout = 600;  ///< seconds until an operation that others do not enter ends the run
  /// Seconds that a rank that fails waits for one that is using its buffers. Ranks of one address space wait for ever.
  double longest_move = std::numeric_limits<double>::infinity();
  bool crowded = false;  ///< more ranks than cores: spinning would keep others from working
  Team* team = nullptr;
  Stream* stream = nullptr;               ///< of the memory of a device
  MemorySource* window = nullptr;         ///< of the memory that the ranks share; null: they share every memory
  Staging* staging = nullptr;             ///< for memory that the ranks do not share; null: they share every memory
  std::function<void()> look_after = {};  ///< called while others are waited for: ends the run when a rank is no more; noexcept
  std::vector<HostCommunicator*> groups = {};

  /// Does what can be done now, in all groups.
  void progress();
};

/// Turn `turn` of waiting for other ranks: spins, then gives the core away, then sleeps a little.
void relax(int turn, bool crowded);

}  // namespace lockstep::comm::host
