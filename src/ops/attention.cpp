#include "ops/attention.h"

#include "ops/check.h"

namespace lockstep::ops {
namespace {

void check_shape(const AttentionShape& s, const DropoutSite& dropout) {
  demand(s.samples >= 0 && s.queries >= 0, "attention", "samples and queries are not negative");
  demand(s.heads > 0 && s.kv_heads > 0 && s.head_size > 0, "attention", "heads and head size are positive");
  demand(s.group > 0 || (s.heads % s.kv_heads == 0 && s.skipped == 0), "attention", "key/value heads divide the heads");
  demand(s.group >= 0 && s.skipped >= 0 && s.skipped < s.group_size(), "attention", "key/value head 0 has a head");
  demand(s.kv_head_of(s.heads - 1) == s.kv_heads - 1, "attention", "the last head reads the last key/value head");
  demand(s.later >= 0 && s.first_key >= 0, "attention", "queries do not lie before the keys");
  demand(s.first_query() >= 0, "attention", "the first query sees a key");
  demand(s.key_rows >= s.keys, "attention", "the rows of k and v hold the keys");
  check_site(dropout);
  demand(dropout.p == 0 || dropout.index_stride >= s.first_key + s.keys, "dropout", "the index stride holds the keys");
}

void check_inputs(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionShape& s, DType type) {
  check_matrix(q, s.samples * s.queries, s.heads * s.head_size, "q", type);
  check_matrix(k, s.samples * s.key_rows, s.kv_heads * s.head_size, "k", type);
  check_matrix(v, s.samples * s.key_rows, s.kv_heads * s.head_size, "v", type);
}

// What keeps sums, or a result that other calls go on with, is f32.
void check_result(const Tensor& result, const Tensor& like, std::string_view name, DType type, bool further) {
  check_matrix(result, like.rows(), like.columns(), name, result.dtype == DType::f32 || further ? DType::f32 : type);
}

void check_whole(const WholeWeights& whole, const AttentionShape& s, bool further, const Tensor& starts) {
  demand(!whole || s.softcap == 0, "weights", "scores of whole ones are not capped");
  demand(whole || (!whole.aside && !whole.mask), "weights", "what comes with them comes with them");
  if (!whole) return;
  demand(s.queries == s.keys && s.keys == s.key_rows && s.first_key == 0 && s.later == 0 && !further, "weights",
         "whole ones are of all positions of samples");
  check_dense(whole.weights, s.samples * s.heads * s.queries * s.keys, "weights");
  check_dense(whole.aside, whole.weights.elements(), "aside");
  check_optional_dense(whole.mask, s.queries * s.keys, "mask");
  demand(!whole.mask || !starts, "mask", "it hides the same keys in all samples");
  check_device({&whole.weights, &whole.aside, &whole.mask});
}

void check_parts(const AttentionBackward& call) {
  if (call.parts.empty()) return;
  const AttentionShape& shape = call.shape;
  std::int64_t head = 0;
  for (const HeadPart& part : call.parts) {
    demand(part.first == head && part.count > 0, "parts", "they have every head once, in order");
    head += part.count;
    demand(shape.kv_head_of(part.first) == part.kv_head && shape.kv_head_of(head - 1) == part.kv_head, "parts",
           "the heads of a part share a key/value head");
    demand(part.range >= 0 && part.range < most_head_ranges, "parts", "their ranges are those of a tree");
  }
  demand(head == shape.heads, "parts", "they have every head once, in order");
  demand(!call.further, "parts", "their sum begins at zero");
  check_dense(call.part_sums, 2 * call.k.rows() * std::ssize(call.parts) * shape.head_size, "part_sums");
}

}  // namespace

std::int64_t delta_columns(std::int64_t heads, std::int64_t head_size, DType type) {
  return type == DType::bf16 ? heads + heads * head_size : heads;
}

void Attention::forward(const AttentionForward& call) {
  const AttentionShape& shape = call.shape;
  const DType type = storage_of(call.q, "q");
  check_shape(shape, call.dropout);
  check_inputs(call.q, call.k, call.v, shape, type);
  check_result(call.o, call.q, "o", type, call.further);
  demand(!call.further || call.lse, "attention", "what goes on has an lse");
  check_whole(call.whole, shape, call.further, call.starts);
  check_starts(call.starts, shape.samples, shape.end());
  check_optional_dense(call.lse, shape.samples * shape.heads * shape.queries, "lse");
  check_device({&call.o, &call.lse, &call.q, &call.k, &call.v, &call.starts});
  const OpScope running = scope("forward");
  do_forward(call);
}

void Attention::forward(const CachedAttention& call) {
  AttentionShape shape = call.shape;
  shape.samples = shape.queries = shape.keys = shape.key_rows = 0;  // texts say these
  const DType type = storage_of(call.q, "q");
  demand(call.k.rows() % page_keys == 0, "attention", "the cache has whole pages");
  std::int64_t rows = 0;
  for (const CachedText& text : call.texts) {
    demand(text.first == rows && text.rows > 0 && text.position >= 0, "attention", "texts have every row once, in order");
    demand(text.text >= 0 && text.text < call.pages.rows(), "pages", "they have a row for every text");
    demand(text.position + text.rows <= call.pages.columns() * page_keys, "pages", "they hold a text's keys");
    check_starts(call.starts, 1, text.position + text.rows);
    rows += text.rows;
  }
  demand(rows == call.q.rows(), "attention", "texts have every row once, in order");
  check_shape(shape, {});
  check_matrix(call.q, rows, shape.heads * shape.head_size, "q", type);
  check_matrix(call.k, call.k.rows(), shape.kv_heads * shape.head_size, "k", type);
  check_matrix(call.v, call.k.rows(), shape.kv_heads * shape.head_size, "v", type);
  check_matrix(call.o, rows, call.q.columns(), "o", type);
  check_matrix(call.pages, call.pages.rows(), call.pages.columns(), "pages", DType::i32);
  check_device({&call.o, &call.q, &call.k, &call.v, &call.pages, &call.starts});
  const OpScope running = scope("forward");
  do_forward(call);
}

void Attention::backward(const AttentionBackward& call) {
  const auto& [dq, dk, dv, delta, d_o, o, lse, q, k, v, shape, dropout, further, starts, parts, part_sums, whole] = call;
  check_shape(shape, dropout);
  demand(shape.queries > 0 || shape.keys == 0, "attention backward", "a query sees the keys");
  const DType type = storage_of(q, "q");
  check_inputs(q, k, v, shape, type);
  check_result(dq, q, "dq", type, further);
  check_result(dk, k, "dk", type, further);
  check_result(dv, v, "dv", type, further);
  check_matrix(d_o, q.rows(), q.columns(), "d_o", type);
  check_matrix(o, q.rows(), q.columns(), "o", type);
  if (!whole) check_dense(lse, shape.samples * shape.heads * shape.queries, "lse");
  check_whole(whole, shape, further, starts);
  demand(!whole || parts.empty(), "weights", "whole ones are not summed by parts");
  demand(!whole || shape.group_size() == 1 || (dk.dtype == DType::f32 && dv.dtype == DType::f32), "dk",
         "what several heads add up to from whole weights is f32");
  check_dense(delta, q.rows() * delta_columns(shape.heads, shape.head_size, whole ? DType::f32 : dq.dtype), "delta");
  check_starts(starts, shape.samples, shape.end());
  check_parts(call);
  check_device({&dq, &dk, &dv, &delta, &d_o, &o, &lse, &q, &k, &v, &starts, &part_sums});
  const OpScope running = scope("backward");
  do_backward(call);
}

}  // namespace lockstep::ops
