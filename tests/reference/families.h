#pragma once

// The reference: plain loops on host memory, sums in double, results rounded once. Obvious before fast; what every backend is
// compared with.

#include <memory>

#include "ops/ops.h"

namespace lockstep::ops {

/// All families; `observer` is told of each op.
std::unique_ptr<Ops> make_reference_ops(OpObserver* observer = nullptr);

namespace reference {

/// The reference of each family of ops. `observer` is told of each op that is called. Null: no observer is told.
std::unique_ptr<Linear> make_linear(OpObserver* observer);
/// LayerNorm or a kind of RMSNorm, as `form` says.
std::unique_ptr<Norm> make_norm(NormForm form, OpObserver* observer);
std::unique_ptr<SplitNorm> make_split_norm(OpObserver* observer);
std::unique_ptr<Rotary> make_rotary(OpObserver* observer);
std::unique_ptr<Attention> make_attention(OpObserver* observer);
std::unique_ptr<Activations> make_activation(OpObserver* observer);
std::unique_ptr<Embedding> make_embedding(OpObserver* observer);
std::unique_ptr<Dropout> make_dropout(OpObserver* observer);
std::unique_ptr<Loss> make_loss(OpObserver* observer);
std::unique_ptr<Elementwise> make_elementwise(OpObserver* observer);
std::unique_ptr<Reduce> make_reduce(OpObserver* observer);
std::unique_ptr<Update> make_update(OpObserver* observer);

}  // namespace reference
}  // namespace lockstep::ops
