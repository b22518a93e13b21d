#pragma once

// Why an operation did not end: what was waited for, who is missing, and what each rank did last.

#include <span>
#include <string>
#include <vector>

#include "comm/host/board.h"

namespace lockstep::comm::host {

/// A group as reports see it.
struct GroupView {
  const Board& board;
  const std::vector<int>& members;  ///< ranks of the world
  const std::string& name;
};

/// "all_reduce (sum, 1,024 F32), operation 17 of 'world'".
std::string name_operation(const GroupView& group, int rank, std::uint64_t sequence);
/// Members that have not entered the operation.
std::vector<int> missing(const GroupView& group, std::uint64_t sequence);
/// "  rank 0: entered broadcast (...), operation 16, 2.0 s ago; done" for every member.
std::string last_operations(const GroupView& group);

/// The first difference between what the members entered as the operation; empty when they agree.
std::string disagreement(const GroupView& group, std::uint64_t sequence);

}  // namespace lockstep::comm::host
