#include "model/attention/head_norm.h"

namespace lockstep::model {

using arch::Role;

Tensor HeadNorm::key_stats(const Tensor& stats, std::int64_t rows) const {
  return stats.slice_rows(context_.dims.heads * rows, context_.dims.kv_heads * rows);
}

void HeadNorm::forward(const Tensor& to, const Tensor& stats, const Tensor& heads, const Tensor& gain) const {
  const std::int64_t size = context_.dims.head_size, rows = heads.rows();
  for (std::int64_t head = 0; head * size < heads.columns(); ++head) {
    head_norm_of(context_).forward(to.slice_columns(head * size, size), stats.slice_rows(head * rows, rows),
                                   heads.slice_columns(head * size, size), gain, {}, context_.config.norm_eps);
  }
}

void HeadNorm::forward(const LayerWeights& w, const BlockSaved& saved, const Tensor& qkv) const {
  const std::int64_t rows = qkv.rows(), queries = context_.dims.attention_width(), keys = context_.dims.kv_width();
  const Tensor to = saved.qk.slice_rows(0, rows);
  forward(to.slice_columns(0, queries), saved.qk_stats, qkv.slice_columns(0, queries), w[Role::query_gain]);
  forward(to.slice_columns(queries, keys), key_stats(saved.qk_stats, rows), qkv.slice_columns(queries, keys), w[Role::key_gain]);
}

void HeadNorm::backward(const Pass& pass, const LayerWeights& w, const Gradients& gradients, const BlockSaved& saved,
                        const Tensor& d_qkv) const {
  const std::int64_t rows = d_qkv.rows(), queries = context_.dims.attention_width(), keys = context_.dims.kv_width();
  const Tensor qkv = saved.qkv.slice_rows(0, rows);
  const auto go_back = [&](const layout::Range& columns, const Tensor& stats, Role gain) {
    context_.sums.heads_backward(head_norm_of(context_), *context_.boundaries.attention, pass,
                                 {.d = d_qkv.slice_columns(columns.first, columns.count),
                                  .x = qkv.slice_columns(columns.first, columns.count),
                                  .stats = stats,
                                  .gain = w[gain],
                                  .d_gain = gradients.set[gain],
                                  .of_keys = gain == Role::key_gain,
                                  .accumulate = gradients.set.accumulate});
  };
  go_back({0, queries}, saved.qk_stats, Role::query_gain);
  go_back({queries, keys}, key_stats(saved.qk_stats, rows), Role::key_gain);
}

}  // namespace lockstep::model
