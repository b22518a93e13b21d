#pragma once

// Numbers that are not finite, found and named: a run that has diverged says where, and no such weight goes into a checkpoint.

#include <cstdint>
#include <string>

#include "base/error.h"
#include "train/engine.h"

namespace lockstep::train {

/// The first weight tensor, in the order of units, with an element that is not finite; of several ranks the first one's. Empty:
/// all are finite. Collective over the engine's ranks.
std::string first_weight_not_finite(Engine& engine);
/// The same of the last step's gradients, of those that the ranks have.
std::string first_gradient_not_finite(Engine& engine);

/// What a run says that ends itself after `step` steps because of `what`. Collective over the engine's ranks.
Problem divergence_of(Engine& engine, std::int64_t step, const std::string& what);

}  // namespace lockstep::train
