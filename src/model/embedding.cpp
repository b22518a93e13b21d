#include "model/embedding.h"

namespace lockstep::model {

using arch::Role;

ops::DropoutSite EmbeddingLayer::dropout(const Pass& pass) const {
  constexpr int embedding_layer = -1;  // blocks have 0, 1, ...
  return dropout_site(context_, outside_pass(pass, boundary_), embedding_layer, ops::Site::embedding);
}

void EmbeddingLayer::forward(const Pass& pass, const WeightSet& w, const Tensor& tokens, const Tensor& out,
                             const Scratch& scratch) const {
  const auto look_up = [&](const Tensor& rows) {
    context_.ops.embedding().forward(rows, tokens, w[Role::token_table], w[Role::position_table], pass.positions,
                                     context_.dims.first_token, pass.starts);
  };
  if (boundary_.kind() == parallel::BoundaryKind::local) {
    look_up(out);
  } else {
    const bool split = boundary_.kind() == parallel::BoundaryKind::splitting;
    const Tensor partial = scratch.partial.slice_rows(0, pass.rows());
    const Tensor sums = split ? scratch.sums.slice_rows(0, out.rows()) : partial;
    const Tensor narrow = (split ? scratch.normed_inside : scratch.normed).slice_rows(0, pass.rows());
    const Tensor& rows = out.dtype == partial.dtype ? partial : narrow;
    look_up(rows);
    if (rows.data != partial.data) context_.ops.elementwise().cast(partial, rows);
    boundary_.reduce(sums, partial, pass.grid()).wait();
    context_.ops.elementwise().cast(out, sums);
  }
  if (scales()) context_.ops.elementwise().scale(out, static_cast<float>(context_.config.embedding_scale));
  const ops::DropoutSite site = dropout(pass);
  if (site.p > 0) context_.ops.dropout().forward(out, out, site);
}

void EmbeddingLayer::backward(const Pass& pass, const GradientSet& gradient, const Tensor& d_tokens, const Tensor& tokens,
                              const Tensor& d, const Scratch& scratch, int microbatch) const {
  const ops::DropoutSite site = dropout(pass);
  if (site.p > 0) context_.ops.dropout().backward(d, d, site);
  if (scales()) context_.ops.elementwise().scale(d, static_cast<float>(context_.config.embedding_scale));
  Tensor inside = d;
  if (boundary_.kind() == parallel::BoundaryKind::splitting) {
    inside = scratch.d_inside.slice_rows(0, pass.rows());
    boundary_.gather(inside, d, pass.grid()).wait();
  }
  context_.sums.embed_backward(boundary_, pass,
                               {.d_tokens = d_tokens,
                                .d_positions = gradient[Role::position_table],
                                .outside = d,
                                .inside = inside,
                                .tokens = tokens,
                                .microbatch = microbatch,
                                .accumulate = gradient.accumulate});
}

}  // namespace lockstep::model
