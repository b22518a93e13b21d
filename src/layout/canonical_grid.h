#pragma once

// Canonical mode (numerics.md section 3.8): what a layout may divide is summed by this many ranges of the whole index, the same
// in every layout, so that the ranks of a layout have whole branches of one tree.

#include "layout/range.h"

namespace lockstep::layout {

inline constexpr int canonical_ranges = 8;

/// Whether as many ranks or micro-batches have as many ranges each, and whole branches of the tree.
inline bool divides_canonical_ranges(std::int64_t parts) { return parts >= 1 && canonical_ranges % parts == 0; }

/// Of n things of the whole model or step, those in a range.
inline Range canonical_range(std::int64_t n, int range) { return part_of(n, range, canonical_ranges); }

}  // namespace lockstep::layout
