#pragma once

// One hash of all weights of a run, which identifies what was made with these weights.

#include <string>

#include "train/engine.h"

namespace lockstep::train {

/// 64 hexadecimal digits for the weights that are trained and those that are not: the same in every layout. Collective.
std::string hash_of_weights(Engine& engine);

}  // namespace lockstep::train
