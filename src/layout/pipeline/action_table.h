#pragma once

// Schedules as comma-separated values, in the format of PyTorch's action tables (torch.distributed.pipelining, compute_only): a
// line for each rank, and in it a cell for each pass: stage, F, B, I or W, micro-batch (2F0: forward of micro-batch 0 in stage 2;
// B: whole backward, I: its input gradient, W: its weight gradients). Empty cells are pauses. Cells in brackets, which PyTorch
// runs overlapped, are taken one after another; messages and gathering of weights are left out: they follow from the passes.

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

/// Throws UserError, with everything that is wrong: a cell that is none, a stage that two ranks have or none, passes that are
/// missing or out of the order of micro-batches, ranks that wait for each other. `name`: of the file, for messages.
ActionTable read_action_table(std::string_view text, std::string_view name);
std::string write_action_table(const std::vector<std::vector<StagePass>>& passes);

}  // namespace lockstep::layout
