#pragma once

// AdamW (Loshchilov & Hutter 2019), with the mean and the mean square of the gradient as slots.

#include <memory>

#include "train/optimizer/optimizer.h"

namespace lockstep::train {

std::unique_ptr<Optimizer> make_adamw(const OptimizerSettings& settings);

}  // namespace lockstep::train
