#pragma once

// How a parameter is cut over the ranks that split the model's tensors (tensor parallelism). A shard is what one of them holds:
// its shape, its elements of the whole tensor, and which ranks have the same ones.

#include <cstdint>
#include <vector>

#include "base/shape.h"
#include "layout/range.h"

namespace lockstep::layout {

/// One of the ranks that split the model's tensors.
struct TensorRank {
  int rank = 0;
  int ranks = 1;
};

/// A part of a parameter that is cut by itself, as q, k and v are. Ranks divide its pieces (heads, features, rows of the
/// vocabulary). No piece is cut.
struct ShardGroup {
  std::int64_t pieces = 0;
  std::int64_t size = 1;  ///< indices of a piece along the axis
  /// The number of neighbours that use a piece together, as query heads use a KV head. Ranks divide these users, and each rank
  /// holds the pieces that its users need. Several ranks may hold the same piece.
  std::int64_t users = 1;
};

/// The pieces of a group that a rank holds.
Range held_pieces(const ShardGroup& group, TensorRank tensor);

struct ShardRule {
  int axis = -1;                   ///< 0 or 1: the axis that is cut; -1: every rank holds the whole tensor
  std::vector<ShardGroup> groups;  ///< one after another along the axis, all of it; shared pieces lie along axis 0 only
  bool partial = false;            ///< every rank holds the whole tensor and uses it for its own heads
};

/// A rectangle of the whole tensor, which is a matrix here. Its elements lie one after another in the shard.
struct Rectangle {
  std::int64_t local = 0;   ///< the rectangle's first element in the shard
  std::int64_t global = 0;  ///< the same element in the whole tensor, in row-major order
  std::int64_t rows = 0, columns = 0;
  std::int64_t stride = 0;  ///< from row to row in the whole tensor
  /// One of the ranks that hold these elements owns them. It counts them where every element counts once (a norm, a file).
  bool owned = true;
  friend bool operator==(const Rectangle&, const Rectangle&) = default;
};

/// Elements of a shard that `ranks` hold together.
struct SharedRange {
  Range elements;
  std::vector<int> ranks;
};

/// One rank's elements of a parameter.
class Shard {
 public:
  /// `whole`: the parameter's shape, with one or two extents.
  Shard(const Shape& whole, const ShardRule& rule, TensorRank tensor = {});

  /// The shape of what the rank holds.
  const Shape& shape() const { return shape_; }
  const Shape& whole() const { return whole_; }

  /// Where elements [range.first, range.end()) of the shard lie in the whole tensor, in the shard's order.
  std::vector<Rectangle> rectangles(Range range) const;

  /// The elements for which this rank's gradient is a part of a sum over ranks. They lie in pieces that other ranks hold too,
  /// each for its own users. A tensor that every rank holds whole has the same gradient on all of them, with two exceptions.
  /// Either ranks divide the tokens (`sequence`), or the rule says that each uses it for its own heads.
  std::vector<SharedRange> partial(bool sequence) const;

 private:
  /// Neighbouring indices of the axis.
  struct Run {
    std::int64_t local, global, count;
    Range owned;  ///< the run's indices that this rank owns
  };
  void add_group(const ShardGroup& group, std::int64_t first);
  void share(const ShardGroup& group, std::int64_t local);
  std::vector<Rectangle> of_rows(Range range) const;
  std::vector<Rectangle> of_columns(Range range) const;

  Shape whole_, shape_;
  ShardRule rule_;
  TensorRank tensor_;
  std::vector<Run> runs_;
  std::vector<SharedRange> shared_;
};

}  // namespace lockstep::layout
