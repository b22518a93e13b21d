#pragma once

// Which weights each pass of a step needs, in order. Compiled once from the actions: stores prefetch, release and assign slots
// from it, and hold every lease of a step against it.

#include <cstdint>
#include <vector>

#include "base/strong.h"
#include "layout/pipeline/pipeline_schedule.h"
#include "layout/range.h"

namespace lockstep::layout {

enum class Pass : std::uint8_t { forward, backward };

/// Elements of a unit that are needed together: all, or what a part of the model has of them.
struct Part {
  UnitIndex unit;
  Range elements;
  friend bool operator==(const Part&, const Part&) = default;
};

struct Access {
  Part part;
  Pass pass;
  friend bool operator==(const Access&, const Access&) = default;
};

/// What one micro-batch needs in each pass through a chunk, in order (the model says). Weight gradients need nothing.
struct ChunkParts {
  std::vector<Part> forward, backward;
  /// Of a backward pass with its weight gradients directly behind the micro-batch's forward pass: the last blocks that this ran
  /// need not be run again.
  std::vector<Part> backward_at_once;
};
/// `parts`: of each chunk.
std::vector<Access> access_order(const std::vector<Action>& actions, const std::vector<ChunkParts>& parts);

}  // namespace lockstep::layout
