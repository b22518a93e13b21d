#include "model/mlp.h"

namespace lockstep::model {

using arch::Role;

Mlp::Mlp(const Context& context, int layer)
    : context_(context),
      sub_layer_(context, *context.boundaries.mlp,
                 {.gain = Role::norm2_gain,
                  .norm_bias = Role::norm2_bias,
                  .in_weight = Role::up_weight,
                  .in_bias = Role::up_bias,
                  .out_weight = Role::down_weight,
                  .out_bias = Role::down_bias,
                  .dropout = ops::Site::mlp_out},
                 layer) {}

Mlp::Halves Mlp::split(const Tensor& hidden) const {
  const std::int64_t width = context_.dims.ffn_width;
  return {context_.dims.gated ? hidden.slice_columns(0, width) : Tensor{}, hidden.slice_columns(up_row(), width)};
}

void Mlp::project(const Tensor& y, const Tensor& normed, const WeightSet& w, std::int64_t first, ops::Epilogue epilogue) const {
  if (w[Role::up_bias]) epilogue.bias = w[Role::up_bias].flat(first, y.columns());
  context_.ops.linear().forward(y, normed, w[Role::up_weight].slice_rows(first, y.columns()), epilogue);
}

void Mlp::forward(const Pass& pass, const WeightSet& w, BlockSaved& saved, const Tensor& out, const Scratch& scratch) const {
  const std::int64_t rows = pass.rows();
  const auto top = [rows](const Tensor& t) { return t.slice_rows(0, rows); };
  const Tensor x = saved.middle.slice_rows(0, out.rows());
  const Tensor activated = top(scratch.activated);
  const Tensor normed = sub_layer_.enter(pass, w, x, saved.stats2.slice_rows(0, x.rows()), scratch);
  // The gate's product goes first; the other one multiplies while its result is in cache.
  const Halves kept = split(top(saved.pre_activation));
  if (kept.gate) project(kept.gate, normed, w, 0, {});
  ops::Epilogue epilogue{.activation = activation_of(context_), .gate = kept.gate};
  if (pass.training) epilogue.pre_activation = kept.up;
  project(activated, normed, w, up_row(), epilogue);
  sub_layer_.leave(pass, w, out, x, activated, scratch);
}

void Mlp::run_again(const Pass& pass, const WeightSet& w, BlockSaved& saved, std::int64_t rows, const Scratch& scratch) const {
  const Tensor x = saved.middle.slice_rows(0, rows);
  const Tensor normed = sub_layer_.enter(pass, w, x, saved.stats2.slice_rows(0, x.rows()), scratch);
  const Halves kept = split(saved.pre_activation.slice_rows(0, pass.rows()));
  if (kept.gate) project(kept.gate, normed, w, 0, {});
  project(kept.up, normed, w, up_row(), {});
}

void Mlp::backward(const Pass& pass, const WeightSet& w, const Gradients& gradients, BlockSaved& saved, const Tensor& d,
                   const Scratch& scratch) const {
  const std::int64_t rows = pass.rows();
  const auto top = [rows](const Tensor& t) { return t.slice_rows(0, rows); };
  const Tensor d_branch = sub_layer_.leave_backward(pass, gradients, d, scratch);
  const Tensor d_hidden = top(scratch.d_hidden);
  // What went into the activation (or under the gate) is not needed again: what came out takes its place.
  const Halves kept = split(top(saved.pre_activation)), d_kept = split(d_hidden);
  const Tensor activated = kept.up;
  context_.ops.linear().backward_input(d_kept.up, d_branch, w[Role::down_weight],
                                       {.pre_activation = kept.up,
                                        .activation = activation_of(context_),
                                        .activated = activated,
                                        .gate = kept.gate,
                                        .d_gate = d_kept.gate});
  sub_layer_.push_out(gradients, activated, d_branch);
  const Tensor x = saved.middle.slice_rows(0, d.rows()), stats = saved.stats2.slice_rows(0, d.rows());
  sub_layer_.enter_backward(pass, w, gradients, {x, stats, d_hidden, d}, scratch);
}

}  // namespace lockstep::model
