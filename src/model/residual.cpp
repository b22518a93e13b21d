#include "model/residual.h"

namespace lockstep::model {

void add_branch(const Context& context, parallel::Boundary& leave, const ops::DropoutSite& site, const Tensor& out,
                const Tensor& x, const Tensor& input, const Tensor& weight, const Tensor& bias, const Tensor& branch) {
  ops::Epilogue epilogue;
  epilogue.bias = bias;
  if (leave.is_local() && site.p == 0) {
    epilogue.residual = x;
    context.ops.linear().forward(out, input, weight, epilogue);
    return;
  }
  const Tensor b = branch.slice_rows(0, x.rows());
  context.ops.linear().forward(b, input, weight, epilogue);
  leave.forward(b, b).wait();
  context.ops.dropout().forward(out, b, site, x);
}

Tensor branch_gradient(const Context& context, parallel::Boundary& leave, const ops::DropoutSite& site, const Tensor& d,
                       const Tensor& branch) {
  if (leave.is_local() && site.p == 0) return d;
  const Tensor b = branch.slice_rows(0, d.rows());
  context.ops.dropout().backward(b, d, site);
  leave.backward(b, b).wait();
  return b;
}

}  // namespace lockstep::model
