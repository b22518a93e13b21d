#pragma once

// Which elements of its units a model reads together: what it leases. A block's unit holds both of its sub-layers, each of which
// has its matrices side by side, and its vectors.

#include <vector>

#include "arch/parameters.h"
#include "layout/access_order.h"
#include "layout/parallel_plan.h"
#include "layout/pipeline/pipeline_schedule.h"

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

/// Of them, those that `chunks` of the model read; the others are empty.
PartMap parts_of(PartMap parts, const std::vector<layout::Chunk>& chunks);

/// Units of which only a few parts are leased at a time, so that they can be gathered into the same memory.
struct LeaseClass {
  std::vector<UnitIndex> units;
  std::int64_t elements = 0;  ///< of the largest part
  int parts = 0;              ///< of all of these units
  int at_once = 1;            ///< parts that are leased at a time, at most
  bool sequence = false;      ///< one is leased behind the other: it pays to have the next one early
};
/// Blocks, a tied matrix, and the embedding with the head, which are never leased at the same time; places are counted for what
/// `parts` has.
std::vector<LeaseClass> lease_classes(const PartMap& parts, const UnitMap& map);

}  // namespace lockstep::arch
