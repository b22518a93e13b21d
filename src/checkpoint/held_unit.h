#pragma once

// Units as checkpoints see them. A flat buffer becomes named tensors. A rank's part of a buffer becomes the ranges of these
// tensors that it holds.

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/tensor_file.h"
#include "layout/unit.h"

namespace lockstep::checkpoint {

/// For every parameter of the units, in their order, the tensor "<name><suffix>" for each suffix.
std::vector<LogicalTensor> tensors_of(std::span<const layout::Unit> units, DType type, std::span<const std::string> suffixes);

/// The elements of named tensors that `range` of a unit's buffer is; `values` has them. Nothing where the range has only padding.
std::vector<HeldTensor> hold(const layout::Unit& unit, layout::Range range, const Tensor& values, std::string_view suffix = "");

}  // namespace lockstep::checkpoint
