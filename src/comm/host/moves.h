#pragma once

// What one rank does of an operation that every member of its group has entered.

#include <vector>

#include "comm/host/board.h"
#include "comm/operation.h"

namespace lockstep {
class Team;
}

namespace lockstep::comm::host {

/// A member of a group and what it reaches the others by.
struct Member {
  const Board& board;
  const SharedMemory& memory;
  const std::vector<int>& members;  ///< ranks of the world
  int rank;                         ///< in the group
  Team* team;                       ///< may be null
};

/// Does the rank's share of operation `sequence`. The spans of `operation` are those of the rank's slot. All members must have
/// entered the same operation.
void do_share(const Member& member, const Operation& operation, std::uint64_t sequence);

/// Copies `bytes`, on the team when there are many.
void copy(Team* team, std::byte* to, const std::byte* from, std::int64_t bytes);

}  // namespace lockstep::comm::host
