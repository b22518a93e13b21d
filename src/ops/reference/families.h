#pragma once

// The reference: plain loops on host memory, sums in double, results rounded once. Obvious before fast; what every other
// backend is compared with.

#include <memory>

#include "ops/ops.h"

namespace lockstep::ops::reference {

std::unique_ptr<Linear> make_linear();
/// `centred`: LayerNorm; RMSNorm otherwise.
std::unique_ptr<Norm> make_norm(bool centred);
std::unique_ptr<Rotary> make_rotary();
std::unique_ptr<Attention> make_attention();
std::unique_ptr<Activations> make_activation();
std::unique_ptr<Embedding> make_embedding();
std::unique_ptr<Dropout> make_dropout();
std::unique_ptr<Loss> make_loss();
std::unique_ptr<Elementwise> make_elementwise();
std::unique_ptr<Reduce> make_reduce();
std::unique_ptr<Update> make_update();

}  // namespace lockstep::ops::reference
