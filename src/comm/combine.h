#pragma once

// The order in which numbers of several ranks are added, on every transport (numerics.md section 3.4). It is a binary tree over
// the rank index, split at the largest power of two below the number of ranks. Sums are in fp32; f64 is added in fp64, integers
// in their own type. bf16 is rounded once, at the end. A mean is the sum divided by the number of ranks.

#include <cstdint>
#include <span>

#include "base/dtype.h"
#include "comm/reduction.h"

namespace lockstep::comm {

/// Elements [first, first + count) of every destination = the reduction of those of the sources, source r being rank r's. A
/// destination may be a source. At least one source; f32, bf16, f64, i32 or i64.
void combine(Reduction reduction, DType dtype, std::span<const std::byte* const> sources,
             std::span<std::byte* const> destinations, std::int64_t first, std::int64_t count);

}  // namespace lockstep::comm
