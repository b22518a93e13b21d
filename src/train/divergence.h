#pragma once

// Numbers that are not finite, found and named: a run that has diverged says where, and no such weight goes into a checkpoint.

#include <cstdint>
#include <string>

#include "base/error.h"
#include "io/file.h"
#include "train/engine.h"

namespace lockstep::train {

/// The first weight tensor, in the order of units, with an element that is not finite. Where several ranks find one, the first
/// rank's is named. Empty: all weights are finite. Collective over the engine's ranks.
std::string first_weight_not_finite(Engine& engine);
/// As first_weight_not_finite(), of the last step's gradients. It sees the gradients that the ranks still hold.
std::string first_gradient_not_finite(Engine& engine);

/// The Problem of a run that ends itself after `step` steps because of `what`. `run`: its folder, whose checkpoints rank 0 looks
/// at for the remedy. Collective over the engine's ranks.
Problem divergence_of(Engine& engine, std::int64_t step, const std::string& what, const io::Path& run);

}  // namespace lockstep::train
