#pragma once

// A boundary is where a part of the model is entered, before its column-split products, and left, after its row-split product.
// All of tensor and sequence parallelism happens here. No layer asks for a rank.
//
// Outside a boundary lies the residual stream: a rank has some rows of a micro-batch, or all. Inside, every rank has all rows and
// a part of the features, and what it makes for the outside are sums over its part. Entering forward and leaving backward carry
// rows inwards; leaving forward and entering backward carry sums outwards.

#include <cstdint>
#include <memory>

#include "comm/request.h"
#include "layout/range.h"
#include "parallel/groups.h"
#include "tensor/tensor.h"

namespace lockstep::parallel {

/// The tokens of a micro-batch; their rows are sample by sample.
struct TokenGrid {
  std::int64_t samples = 0, positions = 0;
  std::int64_t rows() const { return samples * positions; }
};
/// Some tokens of a micro-batch: the same positions of each of some samples.
struct TokenBlock {
  layout::Range samples, positions;
  std::int64_t rows() const { return samples.count * positions.count; }
};

/// What a boundary carries.
enum class BoundaryKind : std::uint8_t {
  local,     ///< nothing: inside is outside, and a product may add its bias and the residual itself
  summing,   ///< sums; every rank has all rows outside too
  splitting  ///< rows and sums
};

class Boundary {
 public:
  virtual ~Boundary() = default;
  virtual BoundaryKind kind() const = 0;
  /// The tokens whose rows this rank has outside.
  virtual TokenBlock outside(const TokenGrid& tokens) const = 0;
  /// inside [R, C] = all rows, of which every rank has those in `outside` [Ro, C]. Only called where rows are split.
  virtual comm::Request gather(const Tensor& inside, const Tensor& outside, const TokenGrid& tokens) = 0;
  /// outside [Ro, C] = this rank's rows of the sum over ranks of inside [R, C]; both f32. Where rows are not split they are the
  /// same tensor. `inside` is used up. Not called where the boundary is local.
  virtual comm::Request reduce(const Tensor& outside, const Tensor& inside, const TokenGrid& tokens) = 0;
  /// all [n, ...] = every rank's `own` [...], one after another. `own` has a few numbers for each row, which each rank makes of
  /// its part of the features. It may be its place in `all`. Not called where the boundary is local.
  virtual comm::Request collect(const Tensor& all, const Tensor& own) = 0;
  /// x = the sum over ranks of x, f32. Not called where the boundary is local.
  virtual comm::Request add_up(const Tensor& x) = 0;
};

/// The boundaries of a model's parts.
struct Boundaries {
  Boundary* embedding;  ///< is only left: rows of a split vocabulary are sums with one term
  Boundary* attention;
  Boundary* mlp;
  Boundary* head;  ///< is only entered; collects what ranks that divide the vocabulary say of their logits
  static Boundaries all(Boundary& boundary) { return {&boundary, &boundary, &boundary, &boundary}; }
};

/// A boundary that carries nothing (BoundaryKind::local).
std::unique_ptr<Boundary> make_local_boundary();

/// The boundary of a rank's layers, as its plan says. The groups outlive it.
std::unique_ptr<Boundary> make_boundary(const Groups& groups);
/// The boundary for reading a few tokens at a time: every rank has all of these tokens.
std::unique_ptr<Boundary> make_reading_boundary(const Groups& groups);

}  // namespace lockstep::parallel
