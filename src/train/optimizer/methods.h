#pragma once

// The methods, each a file of its name: AdamW (Loshchilov & Hutter 2019), with the mean and the mean square of the gradient as
// slots; stochastic gradient descent as torch.optim.SGD does it, with momentum (its buffer is the slot) or without.

#include <memory>

#include "train/optimizer/optimizer.h"

namespace lockstep::train {

std::unique_ptr<Optimizer> make_adamw(const OptimizerSettings& settings);
std::unique_ptr<Optimizer> make_sgd(const OptimizerSettings& settings);

}  // namespace lockstep::train
