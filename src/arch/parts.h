#pragma once

// Which elements of its units a model reads together: what it leases. A block's unit holds both of its sub-layers, each of which
// has its matrices side by side, and its vectors.

#include <vector>

#include "arch/parameters.h"
#include "base/dtype.h"
#include "layout/access_order.h"
#include "layout/parallel_plan.h"
#include "layout/pipeline/pipeline_schedule.h"

namespace lockstep::arch {

/// What a lease may cover.
struct LeaseRule {
  layout::LeaseSize size = layout::LeaseSize::block;
  layout::Tiles tiles = {};  ///< where they cut, sub-layers are leased one after the other, too
  DType type = DType::f32;   ///< type of what is leased: tiles have a limit in bytes
};
LeaseRule lease_rule(const layout::ParallelPlan& plan, DType type);

/// A part of a matrix that is leased by itself.
struct Tile {
  layout::Part part;
  layout::Range rows, columns;  ///< of the matrix: out-features, in-features
};

/// The matrix of a linear layer of which one tile is leased after the other.
struct TiledMatrix {
  Role role;
  std::size_t across = 1;   ///< tiles beside each other
  std::vector<Tile> tiles;  ///< row by row: as the forward pass takes them
  std::size_t down() const { return tiles.size() / across; }
  /// As the backward pass takes them, column by column.
  const Tile& backward(std::size_t i) const { return tiles[i % down() * across + i / down()]; }
};

/// What the sub-layers of a block read as long as they work. Where they share a lease, both are all of the block's unit. All of
/// the block's adapters come last.
struct BlockParts {
  std::vector<layout::Part> attention, mlp;
  std::vector<TiledMatrix> tiled = {};  ///< the matrices that neither has whole, tile by tile
  bool post_norm = false;               ///< a norm is behind the sub-layers: who runs the block again needs its last matrix
  /// The matrix' tiles; null where it is whole.
  const TiledMatrix* find(Role role) const;
};

struct PartMap {
  std::vector<layout::Part> embedding;  ///< turn tokens into rows
  std::vector<BlockParts> blocks;
  std::vector<layout::Part> head;  ///< turn rows into logits
};

/// The parts of a model whose table's units, placed, are `units`.
PartMap part_map(const ModelConfig& config, const std::vector<layout::Unit>& units, const LeaseRule& leases);

/// The length of the widest row of sums that products of `type` keep from tile to tile beside their result; 0: none do. A row has
/// the out-features or the in-features of a tile. f32 sums are made in the result, unless that is the residual stream.
std::int64_t tile_sums(const PartMap& parts, DType type);

/// The parts that `chunks` of the model read; those of other chunks are empty.
PartMap parts_of(PartMap parts, const std::vector<layout::Chunk>& chunks);

/// Units of which only a few parts are leased at a time, so that they can be gathered into the same memory.
struct LeaseClass {
  std::vector<UnitIndex> units;
  std::int64_t elements = 0;    ///< elements of the largest part
  int parts = 0;                ///< parts of all of these units
  int at_once = 1;              ///< parts that are leased at a time, at most
  bool sequence = false;        ///< one is leased behind the other: it pays to have the next one early
  bool tiles = false;           ///< the class has the units' tiles; what else they have is another class
  bool strided = false;         ///< some parts have not all elements of their rows
  std::int64_t contiguous = 0;  ///< elements of the largest of the other parts
};
/// The classes: blocks, their tiles, their adapters, a tied matrix, and the embedding with the head, which are never leased at
/// the same time. Places are counted for what `parts` has.
std::vector<LeaseClass> lease_classes(const PartMap& parts, const UnitMap& map);

}  // namespace lockstep::arch
