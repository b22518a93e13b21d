#include "model/attention/attention.h"

#include <algorithm>
#include <array>

#include "model/attention/rotation.h"
#include "model/linear.h"

namespace lockstep::model {

using arch::Role;

AttentionLayer::AttentionLayer(const Context& context, int layer)
    : context_(context),
      sub_layer_(context, *context.boundaries.attention,
                 {.gain = Role::norm1_gain,
                  .norm_bias = Role::norm1_bias,
                  .in_weight = Role::qkv_weight,
                  .in_bias = Role::qkv_bias,
                  .out_weight = Role::attention_out_weight,
                  .out_bias = Role::attention_out_bias,
                  .post_gain = Role::post1_gain,
                  .post_bias = Role::post1_bias,
                  .dropout = ops::Site::attention_out,
                  .in_grid = &Sums::qkv,
                  .out_grid = &Sums::heads},
                 layer),
      head_norm_(context),
      width_norm_(context),
      layer_(layer),
      turns_(arch::turns(context.config, layer)),
      local_(arch::sees_window(context.config, layer)) {}

parallel::AttentionTensors AttentionLayer::split(const Tensor& qk, const Tensor& qkv, const Tensor& o) const {
  const std::int64_t q = context_.dims.attention_width();
  const std::int64_t kv = context_.dims.kv_width();
  return {qk.slice_columns(0, q), qk.slice_columns(q, kv), qkv.slice_columns(q + kv, kv), o};
}

Tensor AttentionLayer::turned(const Tensor& qk) const {
  return qk.slice_columns(0, context_.dims.attention_width() + context_.dims.kv_width());
}

ops::AttentionShape AttentionLayer::shape(const Pass& pass) const {
  return {.samples = pass.samples,
          .queries = pass.positions.count(),
          .keys = pass.positions.count(),
          .key_rows = pass.positions.count(),
          .heads = context_.dims.heads,
          .kv_heads = context_.dims.kv_heads,
          .head_size = context_.dims.head_size,
          .group = context_.dims.heads_per_kv,
          .skipped = context_.dims.first_head - context_.dims.first_kv_head * context_.dims.heads_per_kv,
          .scale = context_.config.attention_scale,
          .softcap = context_.config.attention_softcap};
}

parallel::AttentionCall AttentionLayer::call(const Pass& pass) const {
  ops::DropoutSite site = dropout_site(context_, pass, layer_, ops::Site::attention_weights);
  site.first_index = site.index_stride * context_.dims.first_head;
  return {shape(pass), pass.positions, site, starts(pass), pass.parts};
}

parallel::AttentionTensors AttentionLayer::make_heads(const Pass& pass, const LayerWeights& w, const BlockSaved& saved,
                                                      const Tensor& x, const Scratch& scratch) const {
  const auto top = [rows = pass.rows()](const Tensor& t) { return t.slice_rows(0, rows); };
  const Tensor qkv = top(saved.qkv);
  const Tensor normed = sub_layer_.enter(pass, w, x, saved.stats1, scratch);
  const std::array whole{Projection{{0, context_.dims.qkv_width()}, qkv, normed, {.bias = w[Role::qkv_bias]}}};
  project(context_, w, Role::qkv_weight, whole, scratch);
  if (head_norm_.used()) head_norm_.forward(w, saved, qkv);
  if (width_norm_.used()) width_norm_.forward(w, saved, qkv, scratch);
  const Tensor qk = top(heads_of(saved));
  if (turns_) rotate(context_, turned(qk), pass, local_);
  return split(qk, qkv, top(saved.attention));
}

void AttentionLayer::forward(const Pass& pass, const LayerWeights& w, BlockSaved& saved, const Tensor& out,
                             const Scratch& scratch) const {
  const Tensor x = saved.x.slice_rows(0, out.rows());
  const parallel::AttentionTensors heads = make_heads(pass, w, saved, x, scratch);
  context_.attention.forward(context_.ops, heads, saved.attention_saved, call(pass));
  sub_layer_.leave(pass, w, out, {x, saved.branch1}, heads.o, scratch);
}

void AttentionLayer::backward(const Pass& pass, const LayerWeights& w, const Gradients& gradients, BlockSaved& saved,
                              const Tensor& d, const Scratch& scratch) const {
  const std::int64_t rows = pass.rows();
  const auto top = [rows](const Tensor& t) { return t.slice_rows(0, rows); };
  const Tensor d_branch = sub_layer_.leave_backward(pass, w, gradients, d, saved.branch1, scratch);
  const Tensor attention = top(saved.attention);
  const Tensor d_attention = top(scratch.d_attention);
  project_back(context_, w, Role::attention_out_weight, d_attention, d_branch, scratch);
  sub_layer_.push_out(w, gradients, attention, d_branch, scratch);

  const Tensor d_qkv = top(scratch.d_qkv);
  const parallel::AttentionTensors d_heads = split(d_qkv, d_qkv, d_attention);
  const parallel::AttentionTensors heads = split(top(heads_of(saved)), top(saved.qkv), attention);
  const parallel::KeySums& keys = context_.sums.keys;
  context_.attention.backward(context_.ops, keys.begin(context_.ops, d_heads), heads, saved.attention_saved, call(pass));
  keys.finish(context_.ops, *context_.boundaries.attention, d_heads);
  if (turns_) rotate_back(context_, turned(d_qkv), pass, local_);
  if (head_norm_.used()) head_norm_.backward(pass, w, gradients, saved, d_qkv);
  if (width_norm_.used()) width_norm_.backward(pass, w, gradients, saved, d_qkv, scratch);
  const Tensor x = saved.x.slice_rows(0, d.rows());
  sub_layer_.enter_backward(pass, w, gradients, {x, saved.stats1, d_qkv, d}, scratch);
}

void AttentionLayer::extend(const Pass& pass, std::span<const ops::CachedText> texts, const LayerWeights& w, BlockSaved& saved,
                            const Tensor& out, const Scratch& scratch, KvCache& cache) const {
  const auto top = [rows = pass.rows()](const Tensor& t) { return t.slice_rows(0, rows); };
  const Tensor x = saved.x.slice_rows(0, out.rows()), attention = top(saved.attention);
  const parallel::AttentionTensors heads = make_heads(pass, w, saved, x, scratch);
  const auto layer = static_cast<std::size_t>(layer_);
  for (const ops::CachedText& text : texts) {
    for (std::int64_t done = 0, count = 0; done < text.rows; done += count) {
      const std::int64_t position = text.position + done, row = cache.row_of(text.text, position);
      count = std::min(text.rows - done, ops::page_keys - position % ops::page_keys);
      ops::Elementwise& elementwise = context_.ops.elementwise();
      elementwise.cast(cache.keys(layer).slice_rows(row, count), heads.k.slice_rows(text.first + done, count));
      elementwise.cast(cache.values(layer).slice_rows(row, count), heads.v.slice_rows(text.first + done, count));
    }
  }
  context_.ops.attention().forward({.o = attention,
                                    .q = heads.q,
                                    .k = cache.keys(layer),
                                    .v = cache.values(layer),
                                    .pages = cache.table(context_.ops.stream()),
                                    .texts = texts,
                                    .shape = shape(pass),
                                    .starts = local_ ? pass.window_starts : Tensor{}});
  sub_layer_.leave(pass, w, out, {x, saved.branch1}, attention, scratch);
}

}  // namespace lockstep::model
