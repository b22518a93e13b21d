#include "model/mlp.h"

#include <array>

#include "model/linear.h"

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
                  .post_gain = Role::post2_gain,
                  .post_bias = Role::post2_bias,
                  .dropout = ops::Site::mlp_out,
                  .in_grid = &Sums::up,
                  .out_grid = &Sums::features},
                 layer) {}

Mlp::Halves Mlp::split(const Tensor& hidden) const {
  const std::int64_t width = context_.dims.ffn_width;
  return {context_.dims.gated ? hidden.slice_columns(0, width) : Tensor{}, hidden.slice_columns(up_row(), width)};
}

void Mlp::project_up(const Tensor& gate, const Tensor& y, const Tensor& normed, const LayerWeights& w, ops::Epilogue epilogue,
                     const Scratch& scratch) const {
  const std::int64_t width = context_.dims.ffn_width;
  const Tensor& bias = w[Role::up_bias];
  if (bias) epilogue.bias = bias.flat(up_row(), width);
  // The gate's product goes first; the other one multiplies while its result is in cache.
  const std::array both{Projection{{0, width}, gate, normed, {.bias = bias ? bias.flat(0, width) : Tensor{}}},
                        Projection{{up_row(), width}, y, normed, epilogue}};
  project(context_, w, Role::up_weight, std::span(both).subspan(gate ? 0 : 1), scratch);
}

void Mlp::forward(const Pass& pass, const LayerWeights& w, BlockSaved& saved, const Tensor& out, const Scratch& scratch) const {
  const std::int64_t rows = pass.rows();
  const auto top = [rows](const Tensor& t) { return t.slice_rows(0, rows); };
  const Tensor x = saved.middle.slice_rows(0, out.rows());
  const Tensor activated = top(scratch.activated);
  const Tensor normed = sub_layer_.enter(pass, w, x, saved.stats2, scratch);
  const Halves kept = split(top(saved.pre_activation));
  ops::Epilogue epilogue{.activation = activation_of(context_), .gate = kept.gate};
  if (pass.training) epilogue.pre_activation = kept.up;
  project_up(kept.gate, activated, normed, w, epilogue, scratch);
  sub_layer_.leave(pass, w, out, {x, saved.branch2}, activated, scratch);
}

void Mlp::run_again(const Pass& pass, const LayerWeights& w, BlockSaved& saved, std::int64_t rows, const Scratch& scratch,
                    bool all) const {
  if (all && context_.config.post_norm) return forward(pass, w, saved, scratch.normed.slice_rows(0, rows), scratch);
  const Tensor x = saved.middle.slice_rows(0, rows);
  const Tensor normed = sub_layer_.enter(pass, w, x, saved.stats2, scratch);
  const Halves kept = split(saved.pre_activation.slice_rows(0, pass.rows()));
  project_up(kept.gate, kept.up, normed, w, {}, scratch);
}

void Mlp::backward(const Pass& pass, const LayerWeights& w, const Gradients& gradients, BlockSaved& saved, const Tensor& d,
                   const Scratch& scratch) const {
  const std::int64_t rows = pass.rows();
  const auto top = [rows](const Tensor& t) { return t.slice_rows(0, rows); };
  const Tensor d_branch = sub_layer_.leave_backward(pass, w, gradients, d, saved.branch2, scratch);
  const Tensor d_hidden = top(scratch.d_hidden);
  // What went into the activation (or under the gate) is not needed again: what came out takes its place.
  const Halves kept = split(top(saved.pre_activation)), d_kept = split(d_hidden);
  const Tensor activated = kept.up;
  project_back(context_, w, Role::down_weight, d_kept.up, d_branch, scratch,
               {.pre_activation = kept.up,
                .activation = activation_of(context_),
                .activated = activated,
                .gate = kept.gate,
                .d_gate = d_kept.gate});
  sub_layer_.push_out(w, gradients, activated, d_branch, scratch);
  const Tensor x = saved.middle.slice_rows(0, d.rows());
  sub_layer_.enter_backward(pass, w, gradients, {x, saved.stats2, d_hidden, d}, scratch);
}

}  // namespace lockstep::model
