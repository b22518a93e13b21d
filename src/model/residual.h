#pragma once

// The end of a sub-layer: out = x + dropout(leave(branch w^T + b)), and back. With nothing to reduce and nothing to drop the
// product adds bias and residual itself.

#include "model/context.h"

namespace lockstep::model {

/// out may be x. `branch` is [R, C] workspace, needed only when the product cannot do it all.
void add_branch(const Context& context, parallel::Boundary& leave, const ops::DropoutSite& site, const Tensor& out,
                const Tensor& x, const Tensor& input, const Tensor& weight, const Tensor& bias, const Tensor& branch);

/// The gradient of the branch's product for d (the gradient of `out`): d itself, or `branch` filled.
Tensor branch_gradient(const Context& context, parallel::Boundary& leave, const ops::DropoutSite& site, const Tensor& d,
                       const Tensor& branch);

}  // namespace lockstep::model
