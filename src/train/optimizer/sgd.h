#pragma once

// Stochastic gradient descent as torch.optim.SGD does it, with momentum (its buffer is the slot) or without.

#include <memory>

#include "train/optimizer/optimizer.h"

namespace lockstep::train {

std::unique_ptr<Optimizer> make_sgd(const OptimizerSettings& settings);

}  // namespace lockstep::train
