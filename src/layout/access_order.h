#pragma once

// Which weights each pass of a step needs, in order. The order is compiled once from the actions. Stores prefetch, release and
// assign slots from it. They hold every lease of a step against it.

#include <cstdint>
#include <vector>

#include "base/strong.h"
#include "layout/pipeline/pipeline_schedule.h"
#include "layout/range.h"

namespace lockstep::layout {

enum class Pass : std::uint8_t { forward, backward };

/// Elements of a unit that are needed together: all, or what a part of the model has of them. A tile of a matrix (layout/tiles)
/// has neighbouring columns of neighbouring rows, which are read as a matrix of their own.
struct Part {
  UnitIndex unit;
  Range elements;        ///< of a tile: all of its rows
  std::int64_t row = 0;  ///< of a tile: elements of a row of the matrix; 0: this is no tile, and has all elements
  Range columns = {};    ///< of a tile
  bool tile() const { return row > 0; }
  /// Whether the part lacks some of `elements`.
  bool strided() const { return tile() && columns.count < row; }
  /// The number of elements that the part has.
  std::int64_t count() const { return strided() ? elements.count / row * columns.count : elements.count; }
  /// How many of the part's elements lie before element `end` of the unit.
  std::int64_t count_before(std::int64_t end) const;
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
  /// What a backward pass with its weight gradients needs, where it comes directly behind the micro-batch's forward pass. The
  /// last blocks that the forward pass ran need not be run again.
  std::vector<Part> backward_at_once;
};
/// The weights that the passes in `actions` need, in order. `parts`: by chunk.
std::vector<Access> access_order(const std::vector<Action>& actions, const std::vector<ChunkParts>& parts);

}  // namespace lockstep::layout
