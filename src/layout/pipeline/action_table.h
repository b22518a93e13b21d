#pragma once

// Schedules as comma-separated values, in the format of PyTorch's action tables (torch.distributed.pipelining, compute_only).
// Each rank has a line, and each of its passes a cell of it: stage, kind, micro-batch. 2F0 is stage 2, forward, micro-batch 0.
// The kinds are F (forward), B (whole backward), I (its input gradient) and W (its weight gradients). Empty cells are pauses.
// PyTorch runs cells in brackets overlapped; here they are taken one after another. Messages and gathering of weights are left
// out: they follow from the passes.

#include <string>
#include <string_view>
#include <vector>

#include "layout/pipeline/passes.h"

namespace lockstep::layout {

struct ActionTable {
  StageMap map;
  int microbatches;
  std::vector<std::vector<StagePass>> passes;  ///< of each rank
  friend bool operator==(const ActionTable&, const ActionTable&) = default;
};

/// Reads an action table. Throws UserError with everything that is wrong: unreadable cells, stages that two ranks have or none,
/// ranks that wait for each other. Passes that are missing or out of the order of micro-batches are wrong, too. `name`: of the
/// file, for messages.
ActionTable read_action_table(std::string_view text, std::string_view name);
std::string write_action_table(const std::vector<std::vector<StagePass>>& passes);

}  // namespace lockstep::layout
