#include "model/sub_layer.h"

#include <array>

#include "model/linear.h"

namespace lockstep::model {

ops::DropoutSite SubLayer::dropout(const Pass& pass) const {
  return dropout_site(context_, outside_pass(pass, boundary_), layer_, parts_.dropout);
}

Tensor SubLayer::gathered(const Pass& pass, const Tensor& outside, const Tensor& inside) const {
  if (!splits()) return outside;
  const Tensor all = inside.slice_rows(0, pass.rows());
  boundary_.gather(all, outside, pass.grid()).wait();
  return all;
}

Tensor SubLayer::sums(const Pass& pass, const Tensor& partial, const Scratch& scratch) const {
  return splits() ? scratch.sums.slice_rows(0, boundary_.outside(pass.grid()).rows()) : partial;
}

Tensor SubLayer::enter(const Pass& pass, const LayerWeights& w, const Tensor& x, const Tensor& stats,
                       const Scratch& scratch) const {
  if (!has_pre_norm()) return gathered(pass, x, scratch.normed_inside);
  const Tensor normed = scratch.normed.slice_rows(0, x.rows());
  norm_.forward(normed, stats.slice_rows(0, x.rows()), x, w[parts_.gain], w[parts_.norm_bias], context_.config.norm_eps);
  return gathered(pass, normed, scratch.normed_inside);
}

void SubLayer::normalise(const LayerWeights& w, const Tensor& to, const SavedBranch& branch, const Tensor& residual) const {
  const std::int64_t rows = to.rows();
  norm_.forward(to, branch.stats.slice_rows(0, rows), branch.rows.slice_rows(0, rows), w[parts_.post_gain], w[parts_.post_bias],
                context_.config.norm_eps, residual);
}

void SubLayer::leave(const Pass& pass, const LayerWeights& w, const Tensor& out, const Leaving& to, const Tensor& inner,
                     const Scratch& scratch) const {
  const ops::DropoutSite site = dropout(pass);
  const Tensor& bias = w[parts_.out_bias];
  const Tensor& x = to.x;
  const bool apart = site.p > 0 || context_.dims.scales_branches;
  const Tensor dropped = apart ? scratch.branch.slice_rows(0, x.rows()) : out;
  const Tensor branch = has_post_norm() ? to.branch.rows.slice_rows(0, x.rows()) : dropped;
  const Tensor added = apart ? Tensor{} : x;
  const Tensor residual = has_post_norm() ? Tensor{} : added;
  const layout::Range features{0, context_.dims.width};
  if (is_local()) {
    const std::array whole{
        Projection{features, branch, inner, {.bias = bias, .residual = residual, .grid = context_.grid(parts_.out_grid)}}};
    project(context_, w, parts_.out_weight, whole, scratch);
  } else {
    const Tensor partial = scratch.partial.slice_rows(0, pass.rows()), sums = this->sums(pass, partial, scratch);
    const std::array whole{Projection{features, partial, inner, {.grid = context_.grid(parts_.out_grid)}}};
    project(context_, w, parts_.out_weight, whole, scratch);
    boundary_.reduce(sums, partial, pass.grid()).wait();
    context_.ops.elementwise().finish_sums(branch, sums, bias, residual);
  }
  if (has_post_norm()) normalise(w, dropped, to.branch, added);
  scale(dropped);
  if (site.p > 0) return context_.ops.dropout().forward(out, dropped, site, x);
  if (!apart) return;
  context_.ops.elementwise().cast(out, x);
  context_.ops.elementwise().add(out, dropped);
}

void SubLayer::scale(const Tensor& branch) const {
  if (context_.dims.scales_branches) context_.ops.elementwise().scale(branch, static_cast<float>(context_.config.residual_scale));
}

Tensor SubLayer::normalise_backward(const Pass& pass, const LayerWeights& w, const Gradients& gradients, const Tensor& d,
                                    const SavedBranch& kept, const Scratch& scratch) const {
  const std::int64_t rows = d.rows();
  const Tensor branch = scratch.branch.slice_rows(0, rows);
  context_.sums.norm_backward(norm_, boundary_, pass,
                              {.dx = branch,
                               .n = {},
                               .d_gain = gradients.set[parts_.post_gain],
                               .d_bias = gradients.set[parts_.post_bias],
                               .dn = d,
                               .x = kept.rows.slice_rows(0, rows),
                               .stats = kept.stats.slice_rows(0, rows),
                               .gain = w[parts_.post_gain],
                               .bias = w[parts_.post_bias],
                               .residual = {},
                               .accumulate = gradients.set.accumulate});
  return branch;
}

Tensor SubLayer::leave_backward(const Pass& pass, const LayerWeights& w, const Gradients& gradients, const Tensor& d,
                                const SavedBranch& kept, const Scratch& scratch) const {
  const ops::DropoutSite site = dropout(pass);
  Tensor branch = d;
  if (site.p > 0) {
    branch = scratch.branch.slice_rows(0, d.rows());
    context_.ops.dropout().backward(branch, d, site);
  } else if (context_.dims.scales_branches || (scratch.keeps_branch && !splits() && !has_post_norm())) {
    branch = scratch.branch.slice_rows(0, d.rows());
    context_.ops.elementwise().cast(branch, d);
  }
  scale(branch);
  if (has_post_norm()) branch = normalise_backward(pass, w, gradients, branch, kept, scratch);
  const Tensor& bias = gradients.set[parts_.out_bias];
  if (bias && !sums_bias_inside()) context_.sums.sum_rows(boundary_, pass, bias, branch, gradients.set.accumulate);
  return is_local() ? branch : gathered(pass, branch, scratch.d_inside);
}

void SubLayer::push_out(const LayerWeights& w, const Gradients& gradients, const Tensor& inner, const Tensor& d_out,
                        const Scratch& scratch) const {
  const Tensor bias = sums_bias_inside() ? gradients.set[parts_.out_bias] : Tensor{};
  push(context_, w, gradients, {parts_.out_weight, bias, inner, d_out}, scratch);
}

void SubLayer::enter_backward(const Pass& pass, const LayerWeights& w, const Gradients& gradients, const EnterBackward& call,
                              const Scratch& scratch) const {
  const auto& [x, all_stats, d_in, d] = call;
  const Tensor stats = has_pre_norm() ? all_stats.slice_rows(0, x.rows()) : Tensor{};
  Tensor normed = scratch.normed.slice_rows(0, x.rows());
  if (!has_pre_norm()) {
    const bool lasts = !scratch.keeps_branch || splits();  // until weight gradients are made
    if (lasts) {
      normed = x;
    } else {
      context_.ops.elementwise().cast(normed, x);
    }
  }
  ops::NormBackward norm{.dx = d,
                         .n = {},
                         .d_gain = gradients.set[parts_.gain],
                         .d_bias = gradients.set[parts_.norm_bias],
                         .dn = {},
                         .x = x,
                         .stats = stats,
                         .gain = w[parts_.gain],
                         .bias = w[parts_.norm_bias],
                         .residual = d,
                         .accumulate = gradients.set.accumulate};
  const Tensor& in_bias = gradients.set[parts_.in_bias];
  if (is_local()) {
    norm.dn = scratch.d_normed.slice_rows(0, x.rows());
    norm.n = normed;
    project_back(context_, w, parts_.in_weight, norm.dn, d_in, scratch, {.grid = context_.grid(parts_.in_grid)});
    leave_norm(pass, norm);
    push(context_, w, gradients, {parts_.in_weight, in_bias, normed, d_in}, scratch);
    return;
  }
  const Tensor partial = scratch.partial.slice_rows(0, pass.rows()), sums = this->sums(pass, partial, scratch);
  project_back(context_, w, parts_.in_weight, partial, d_in, scratch, {.grid = context_.grid(parts_.in_grid)});
  comm::Request reduction = boundary_.reduce(sums, partial, pass.grid());
  if (has_pre_norm()) norm_.apply(normed, stats, x, norm.gain, norm.bias);
  push(context_, w, gradients, {parts_.in_weight, in_bias, gathered(pass, normed, scratch.normed_inside), d_in}, scratch);
  reduction.wait();
  norm.dn = rounded(context_, sums, scratch.d_normed);
  leave_norm(pass, norm);
}

void SubLayer::leave_norm(const Pass& pass, const ops::NormBackward& norm) const {
  if (has_pre_norm()) return context_.sums.norm_backward(norm_, boundary_, pass, norm);
  context_.ops.elementwise().add(norm.dx, norm.dn);
}

}  // namespace lockstep::model
