#include "model/attention.h"

#include "model/residual.h"
#include "model/rotation.h"

namespace lockstep::model {

using arch::Role;

AttentionLayer::Heads AttentionLayer::split(const Tensor& qkv) const {
  const std::int64_t q = context_.dims.attention_width();
  const std::int64_t kv = context_.dims.kv_width();
  return {qkv.slice_columns(0, q), qkv.slice_columns(q, kv), qkv.slice_columns(q + kv, kv)};
}

Tensor AttentionLayer::turned(const Tensor& qkv) const {
  return qkv.slice_columns(0, context_.dims.attention_width() + context_.dims.kv_width());
}

ops::AttentionShape AttentionLayer::shape(const Pass& pass) const {
  return {.samples = pass.samples,
          .queries = pass.positions,
          .keys = pass.positions,
          .key_rows = pass.positions,
          .heads = context_.dims.heads,
          .kv_heads = context_.dims.kv_heads,
          .head_size = context_.dims.head_size};
}

void AttentionLayer::forward(const Pass& pass, const WeightSet& w, BlockSaved& saved, const Tensor& out,
                             const Scratch& scratch) const {
  const std::int64_t rows = pass.rows();
  const auto top = [rows](const Tensor& t) { return t.slice_rows(0, rows); };
  const Tensor x = top(saved.x);
  const Tensor normed = top(scratch.normed);
  const Tensor qkv = top(saved.qkv);
  const Tensor attention = top(saved.attention);
  norm_.forward(normed, top(saved.stats1), x, w[Role::norm1_gain], w[Role::norm1_bias], context_.config.norm_eps);
  context_.attention.enter->forward(normed, normed).wait();
  ops::Epilogue epilogue;
  epilogue.bias = w[Role::qkv_bias];
  context_.ops.linear().forward(qkv, normed, w[Role::qkv_weight], epilogue);
  rotate(context_, turned(qkv), pass.positions);
  const Heads heads = split(qkv);
  const Tensor lse =
      saved.lse.flat(0, rows * context_.dims.heads).reshape(Shape{pass.samples * context_.dims.heads, pass.positions});
  context_.ops.attention().forward(attention, lse, heads.q, heads.k, heads.v, shape(pass),
                                   dropout_site(context_, pass, layer_, ops::Site::attention_weights));
  add_branch(context_, *context_.attention.leave, dropout_site(context_, pass, layer_, ops::Site::attention_out), out, x,
             attention, w[Role::attention_out_weight], w[Role::attention_out_bias], scratch.branch);
}

void AttentionLayer::backward(const Pass& pass, const WeightSet& w, const WeightSet& gradient, bool accumulate,
                              ops::WeightSink& sink, const BlockSaved& saved, const Tensor& d, const Scratch& scratch) const {
  const std::int64_t rows = pass.rows();
  const auto top = [rows](const Tensor& t) { return t.slice_rows(0, rows); };
  const Tensor d_branch = branch_gradient(context_, *context_.attention.leave,
                                          dropout_site(context_, pass, layer_, ops::Site::attention_out), d, scratch.branch);
  const Tensor attention = top(saved.attention);
  const Tensor d_attention = top(scratch.d_attention);
  context_.ops.linear().backward_input(d_attention, d_branch, w[Role::attention_out_weight]);
  sink.push({attention, d_branch, gradient[Role::attention_out_weight], gradient[Role::attention_out_bias], accumulate});

  const Tensor d_qkv = top(scratch.d_qkv);
  const Heads heads = split(top(saved.qkv));
  const Heads d_heads = split(d_qkv);
  context_.ops.attention().backward(d_heads.q, d_heads.k, d_heads.v, top(scratch.delta), d_attention, attention, top(saved.lse),
                                    heads.q, heads.k, heads.v, shape(pass),
                                    dropout_site(context_, pass, layer_, ops::Site::attention_weights));

  rotate_back(context_, turned(d_qkv), pass.positions);

  const Tensor normed = top(scratch.normed);
  const Tensor d_normed = top(scratch.d_normed);
  context_.ops.linear().backward_input(d_normed, d_qkv, w[Role::qkv_weight]);
  context_.attention.enter->backward(d_normed, d_normed).wait();
  norm_.backward(d, normed, gradient[Role::norm1_gain], gradient[Role::norm1_bias], d_normed, top(saved.x), top(saved.stats1),
                 w[Role::norm1_gain], w[Role::norm1_bias], d, accumulate);
  sink.push({normed, d_qkv, gradient[Role::qkv_weight], gradient[Role::qkv_bias], accumulate});
}

void AttentionLayer::extend(const Pass& pass, const WeightSet& w, BlockSaved& saved, const Tensor& out, const Scratch& scratch,
                            KvCache& cache) const {
  const std::int64_t rows = pass.rows();
  const std::int64_t before = cache.length();
  const auto layer = static_cast<std::size_t>(layer_);
  const auto top = [rows](const Tensor& t) { return t.slice_rows(0, rows); };
  const Tensor x = top(saved.x);
  const Tensor normed = top(scratch.normed);
  norm_.forward(normed, top(saved.stats1), x, w[Role::norm1_gain], w[Role::norm1_bias], context_.config.norm_eps);
  context_.attention.enter->forward(normed, normed).wait();

  // Each of q, k, v is its own product, so that keys and values land in the cache without a copy.
  const std::int64_t q_width = context_.dims.attention_width();
  const std::int64_t kv_width = context_.dims.kv_width();
  const auto project = [&](const Tensor& y, const Tensor& input, std::int64_t first, std::int64_t count) {
    ops::Epilogue epilogue;
    if (w[Role::qkv_bias]) epilogue.bias = w[Role::qkv_bias].flat(first, count);
    context_.ops.linear().forward(y, input, w[Role::qkv_weight].slice_rows(first, count), epilogue);
  };
  const Tensor q = top(saved.qkv).slice_columns(0, q_width);
  project(q, normed, 0, q_width);
  rotate(context_, q, pass.positions, before);
  for (std::int64_t s = 0; s < pass.samples; ++s) {
    const Tensor input = normed.slice_rows(s * pass.positions, pass.positions);
    const std::int64_t row = s * cache.capacity() + before;
    const Tensor keys = cache.keys(layer).slice_rows(row, pass.positions);
    project(keys, input, q_width, kv_width);
    rotate(context_, keys, pass.positions, before);
    project(cache.values(layer).slice_rows(row, pass.positions), input, q_width + kv_width, kv_width);
  }
  ops::AttentionShape cached = shape(pass);
  cached.keys = before + pass.positions;
  cached.key_rows = cache.capacity();
  const Tensor attention = top(saved.attention);
  context_.ops.attention().forward(attention, {}, q, cache.keys(layer), cache.values(layer), cached);
  add_branch(context_, *context_.attention.leave, {}, out, x, attention, w[Role::attention_out_weight],
             w[Role::attention_out_bias], scratch.branch);
}

}  // namespace lockstep::model
