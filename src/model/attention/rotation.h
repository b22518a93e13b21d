#pragma once

// Rotary positions in a model: the table of angles, computed once, and queries and keys turned by it. With learned positions
// there is no table, and nothing is turned.

#include "model/context.h"
#include "tensor/arena.h"

namespace lockstep::model {

/// The table that `config` asks for: [T_max, D], and behind it another of layers that see the window alone, where these turn by
/// a theta of their own. Its values are there after compute_angles(), which follows the arena's commit().
void declare_angles(Arena& arena, Mirror& angles, const arch::ModelConfig& config);
void compute_angles(const Context& context);

/// Turns heads x [R, n D] of the pass' tokens in place. `local`: of a layer that sees the window alone.
void rotate(const Context& context, const Tensor& x, const Pass& pass, bool local);
/// The gradient's way back.
void rotate_back(const Context& context, const Tensor& x, const Pass& pass, bool local);

}  // namespace lockstep::model
