#pragma once

// The methods, each a file of its name: AdamW (Loshchilov & Hutter 2019), with the mean and the mean square of the gradient as
// slots; stochastic gradient descent as torch.optim.SGD does it, with momentum (its buffer is the slot) or without; LARS (You,
// Gitman & Ginsburg 2017); and Muon (Jordan et al. 2024) for hidden matrices, with AdamW for the rest.

#include <memory>

#include "train/optimizer/optimizer.h"

namespace lockstep::train {

std::unique_ptr<Optimizer> make_adamw(const OptimizerSettings& settings);
std::unique_ptr<Optimizer> make_sgd(const OptimizerSettings& settings);
std::unique_ptr<Optimizer> make_lars(const OptimizerSettings& settings);
std::unique_ptr<Optimizer> make_muon(const OptimizerSettings& settings);

}  // namespace lockstep::train
