#include "model/mlp.h"

#include "model/residual.h"

namespace lockstep::model {

using arch::Role;

void Mlp::forward(const Pass& pass, const WeightSet& w, BlockSaved& saved, const Tensor& out, const Scratch& scratch) const {
  const std::int64_t rows = pass.rows();
  const auto top = [rows](const Tensor& t) { return t.slice_rows(0, rows); };
  const Tensor x = top(saved.middle);
  const Tensor normed = top(scratch.normed);
  const Tensor activated = top(scratch.activated);
  context_.ops.norm().forward(normed, top(saved.stats2), x, w[Role::norm2_gain], w[Role::norm2_bias], context_.config.norm_eps);
  context_.mlp.enter->forward(normed, normed).wait();
  ops::Epilogue epilogue;
  epilogue.bias = w[Role::up_bias];
  if (pass.training) epilogue.pre_activation = top(saved.pre_activation);
  epilogue.activation = context_.config.activation;
  context_.ops.linear().forward(activated, normed, w[Role::up_weight], epilogue);
  add_branch(context_, *context_.mlp.leave, dropout_site(context_, pass, layer_, ops::Site::mlp_out), out, x, activated,
             w[Role::down_weight], w[Role::down_bias], scratch.branch);
}

void Mlp::backward(const Pass& pass, const WeightSet& w, const WeightSet& gradient, bool accumulate, ops::WeightSink& sink,
                   const BlockSaved& saved, const Tensor& d, const Scratch& scratch) const {
  const std::int64_t rows = pass.rows();
  const auto top = [rows](const Tensor& t) { return t.slice_rows(0, rows); };
  const Tensor d_branch =
      branch_gradient(context_, *context_.mlp.leave, dropout_site(context_, pass, layer_, ops::Site::mlp_out), d, scratch.branch);
  const Tensor d_hidden = top(scratch.d_hidden);
  // What went into the activation is not needed again: what came out takes its place.
  const Tensor activated = top(saved.pre_activation);
  ops::InputEpilogue epilogue;
  epilogue.pre_activation = activated;
  epilogue.activation = context_.config.activation;
  epilogue.activated = activated;
  context_.ops.linear().backward_input(d_hidden, d_branch, w[Role::down_weight], epilogue);
  sink.push({activated, d_branch, gradient[Role::down_weight], gradient[Role::down_bias], accumulate});

  const Tensor normed = top(scratch.normed);
  const Tensor d_normed = top(scratch.d_normed);
  context_.ops.linear().backward_input(d_normed, d_hidden, w[Role::up_weight]);
  context_.mlp.enter->backward(d_normed, d_normed).wait();
  context_.ops.norm().backward(d, normed, gradient[Role::norm2_gain], gradient[Role::norm2_bias], d_normed, top(saved.middle),
                               top(saved.stats2), w[Role::norm2_gain], w[Role::norm2_bias], d, accumulate);
  sink.push({normed, d_hidden, gradient[Role::up_weight], gradient[Role::up_bias], accumulate});
}

}  // namespace lockstep::model
