#include "model/mlp.h"

#include "model/residual.h"

namespace lockstep::model {

using arch::Role;

Mlp::Halves Mlp::split(const Tensor& hidden) const {
  const std::int64_t width = context_.dims.ffn_width, first = context_.dims.up_width() - width;
  return {context_.dims.gated ? hidden.slice_columns(0, width) : Tensor{}, hidden.slice_columns(first, width)};
}

void Mlp::forward(const Pass& pass, const WeightSet& w, BlockSaved& saved, const Tensor& out, const Scratch& scratch) const {
  const std::int64_t rows = pass.rows();
  const auto top = [rows](const Tensor& t) { return t.slice_rows(0, rows); };
  const Tensor x = top(saved.middle);
  const Tensor normed = top(scratch.normed);
  const Tensor activated = top(scratch.activated);
  norm_.forward(normed, top(saved.stats2), x, w[Role::norm2_gain], w[Role::norm2_bias], context_.config.norm_eps);
  context_.mlp.enter->forward(normed, normed).wait();
  // The gate's product goes first; the other one multiplies while its result is in cache.
  const auto project = [&](const Tensor& y, std::int64_t first, ops::Epilogue epilogue) {
    if (w[Role::up_bias]) epilogue.bias = w[Role::up_bias].flat(first, y.columns());
    context_.ops.linear().forward(y, normed, w[Role::up_weight].slice_rows(first, y.columns()), epilogue);
  };
  const Halves kept = split(top(saved.pre_activation));
  if (kept.gate) project(kept.gate, 0, {});
  ops::Epilogue epilogue{.activation = context_.config.activation, .gate = kept.gate};
  if (pass.training) epilogue.pre_activation = kept.up;
  project(activated, context_.dims.up_width() - context_.dims.ffn_width, epilogue);
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
  // What went into the activation (or under the gate) is not needed again: what came out takes its place.
  const Halves kept = split(top(saved.pre_activation)), d_kept = split(d_hidden);
  const Tensor activated = kept.up;
  context_.ops.linear().backward_input(d_kept.up, d_branch, w[Role::down_weight],
                                       {.pre_activation = kept.up,
                                        .activation = context_.config.activation,
                                        .activated = activated,
                                        .gate = kept.gate,
                                        .d_gate = d_kept.gate});
  sink.push({activated, d_branch, gradient[Role::down_weight], gradient[Role::down_bias], accumulate});

  const Tensor normed = top(scratch.normed);
  const Tensor d_normed = top(scratch.d_normed);
  context_.ops.linear().backward_input(d_normed, d_hidden, w[Role::up_weight]);
  context_.mlp.enter->backward(d_normed, d_normed).wait();
  norm_.backward(d, normed, gradient[Role::norm2_gain], gradient[Role::norm2_bias], d_normed, top(saved.middle),
                 top(saved.stats2), w[Role::norm2_gain], w[Role::norm2_bias], d, accumulate);
  sink.push({normed, d_hidden, gradient[Role::up_weight], gradient[Role::up_bias], accumulate});
}

}  // namespace lockstep::model
