#pragma once

// Rotary positions in a model: the table of angles, computed once, and queries and keys turned by it. With learned positions
// there is no table, and nothing is turned.

#include "model/context.h"
#include "tensor/arena.h"

namespace lockstep::model {

/// Declares the table of angles that `config` asks for: [T_max, D]. Where layers that see the window alone turn by a theta of
/// their own, their table lies behind it. The values are there after compute_angles(), which follows the arena's commit().
void declare_angles(Arena& arena, Mirror& angles, const arch::ModelConfig& config);
void compute_angles(const Context& context);

/// Turns heads x [R, n D] of the pass' tokens in place. `local`: the layer sees the window alone.
void rotate(const Context& context, const Tensor& x, const Pass& pass, bool local);
/// Turns the gradient of turned heads back, in place.
void rotate_back(const Context& context, const Tensor& x, const Pass& pass, bool local);

}  // namespace lockstep::model
