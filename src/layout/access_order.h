#pragma once

// Which unit each pass of a step needs, in order. Compiled once from the actions: stores prefetch, release and assign slots
// from it, and hold every lease of a step against it.

#include <cstdint>
#include <vector>

#include "base/strong.h"
#include "layout/pipeline_schedule.h"

namespace lockstep::layout {

enum class Pass : std::uint8_t { forward, backward };

struct Access {
  UnitIndex unit;
  Pass pass;
  friend bool operator==(const Access&, const Access&) = default;
};

/// The units that one micro-batch needs in each pass through a chunk, in order (the model says). Weight gradients need none.
struct ChunkUnits {
  std::vector<UnitIndex> forward, backward;
};
/// `units`: of each chunk.
std::vector<Access> access_order(const std::vector<Action>& actions, const std::vector<ChunkUnits>& units);

}  // namespace lockstep::layout
