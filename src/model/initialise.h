#pragma once

// Start values: a function of seed, a parameter's global name and the element's global index (numerics.md section 1).

#include <cstdint>
#include <vector>

#include "arch/parameters.h"
#include "ops/ops.h"
#include "parallel/training_state.h"

namespace lockstep::model {

/// Fills this rank's ranges. `table` is what the state's units were made from. `drawn` [any number] f32 is workspace. It is not
/// used where the filled tensors are f32.
void initialise(ops::Ops& ops, parallel::TrainingState& state, const std::vector<arch::UnitSpec>& table, std::uint64_t seed,
                const Tensor& drawn);

}  // namespace lockstep::model
