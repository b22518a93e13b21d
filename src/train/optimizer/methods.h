#pragma once

// The optimizer's methods, each in a file of its name:
// - AdamW (Loshchilov & Hutter 2019) has the mean and the mean square of the gradient as slots.
// - SGD is torch.optim.SGD's. With momentum its slot is the momentum buffer; without, it has no slot.
// - LARS is that of You, Gitman & Ginsburg 2017.
// - Muon (Jordan et al. 2024) updates hidden matrices, and AdamW the rest.

#include <memory>

#include "train/optimizer/optimizer.h"

namespace lockstep::train {

std::unique_ptr<Optimizer> make_adamw(const OptimizerSettings& settings);
std::unique_ptr<Optimizer> make_sgd(const OptimizerSettings& settings);
std::unique_ptr<Optimizer> make_lars(const OptimizerSettings& settings);
std::unique_ptr<Optimizer> make_muon(const OptimizerSettings& settings);

}  // namespace lockstep::train
