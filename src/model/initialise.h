#pragma once

// Start values: a function of seed, a parameter's global name and the element's global index (numerics.md section 1).

#include <cstdint>
#include <vector>

#include "arch/parameters.h"
#include "ops/ops.h"
#include "parallel/parameter_store.h"

namespace lockstep::model {

/// Fills this rank's shards. `table` is what the store's units were made from.
void initialise(ops::Ops& ops, parallel::ParameterStore& store, const std::vector<arch::UnitSpec>& table, std::uint64_t seed);

}  // namespace lockstep::model
