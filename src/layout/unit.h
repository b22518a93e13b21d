#pragma once

// A unit is what is gathered, reduced and cut together: one block, the embedding, the head, or a tied matrix on its own.
// Its parameters lie in one flat buffer per kind (parameters, gradients, moments): decayed tensors first.

#include <cstdint>
#include <string>
#include <vector>

#include "base/shape.h"
#include "base/strong.h"
#include "layout/range.h"
#include "layout/shard.h"

namespace lockstep::layout {

/// Flat buffers are cut at multiples of this many elements.
inline constexpr std::int64_t cut = 256;
/// Tensors start at multiples of this many elements; the gaps stay zero.
inline constexpr std::int64_t tensor_alignment = 16;

/// A parameter as the layout sees it: a name, a shape, whether it decays and how it is cut.
struct ParameterInfo {
  std::string name;  ///< global, the same in every layout and file
  Shape shape;       ///< of the whole tensor
  bool decay = false;
  int role = 0;  ///< what the model uses it for (arch::Role); opaque here
  ShardRule rule = {};
};

struct PlacedParameter {
  ParameterInfo info;
  std::int64_t offset;  ///< first element in the unit's flat buffer
  Shard shard;          ///< what the rank holds of the parameter; the buffer has no more of it
  const Shape& shape() const { return shard.shape(); }
};

struct Unit {
  std::string name;
  std::vector<PlacedParameter> parameters;
  std::int64_t decayed = 0;   ///< elements [0, decayed) decay, the rest does not
  std::int64_t elements = 0;  ///< a multiple of `cut`
  bool trained = true;        ///< false: no gradient, no slots, no copy in another type; the unit stays as it is
  bool owned = true;          ///< this rank, of the pipeline ranks that have the unit, counts it (a norm, a file)
};

/// Places what a rank holds of `parameters` (any order) into a unit: decayed ones first, otherwise in the order given.
Unit make_unit(std::string name, std::vector<ParameterInfo> parameters, TensorRank tensor = {});

/// Range `part` of `parts` of a unit's elements, divided in pieces of `cut` elements; may be empty.
Range range_of(const Unit& unit, int part, int parts);

/// The runs of elements in `range` that this rank owns, among the tensor and pipeline ranks that have them. They are in order.
/// Gaps between parameters, which are zero, go along. A rank that owns everything gets `range` as one run.
std::vector<Range> owned_runs(const Unit& unit, Range range);

/// Elements of a unit that lie between its parameters, and behind them.
std::vector<Range> gaps_of(const Unit& unit);

}  // namespace lockstep::layout
