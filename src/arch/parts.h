#pragma once

// Which elements of its units a model reads together: what it leases. A block's unit holds both of its sub-layers, each of which
// has its matrices side by side, and its vectors.

#include <vector>

#include "arch/parameters.h"
#include "layout/access_order.h"
#include "layout/parallel_plan.h"

namespace lockstep::arch {

/// What the sub-layers of a block read; the same, all of the block's unit, where they share a lease.
struct BlockParts {
  std::vector<layout::Part> attention, mlp;
};

struct PartMap {
  std::vector<layout::Part> embedding;  ///< turn tokens into rows
  std::vector<BlockParts> blocks;
  std::vector<layout::Part> head;  ///< turn rows into logits
};

/// `units`: of the model's table, placed.
PartMap part_map(const ModelConfig& config, const std::vector<layout::Unit>& units, layout::LeaseSize leases);

}  // namespace lockstep::arch
