#pragma once

// Canonical mode (numerics.md section 3.8): gradients of a key/value head are sums over the heads that read it, by ranges of the
// model's heads.

#include <vector>

#include "layout/sharded_dims.h"
#include "ops/attention.h"

namespace lockstep::parallel {

/// The parts of a rank's heads that are summed by themselves; none where each of its key/value heads has one.
std::vector<ops::HeadPart> head_parts(const layout::ShardedDims& dims);

}  // namespace lockstep::parallel
