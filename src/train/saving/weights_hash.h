#pragma once

// One number of all weights of a run, by which others know what was made with them.

#include <string>

#include "train/engine.h"

namespace lockstep::train {

/// 64 hexadecimal digits of the weights that are trained from and of those that stay: the same in every layout. Collective.
std::string hash_of_weights(Engine& engine);

}  // namespace lockstep::train
