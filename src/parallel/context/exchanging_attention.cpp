#include "parallel/context/exchanging_attention.h"

#include <algorithm>
#include <numeric>

namespace lockstep::parallel {
namespace {

using layout::Range;

const Range& of_rank(const std::vector<Range>& ranges, int rank) { return ranges[static_cast<std::size_t>(rank)]; }

// Of samples of which there may be fewer than were declared.
AttentionTensors first_rows(const AttentionTensors& of, std::int64_t rows) {
  return {of.q.slice_rows(0, rows), of.k.slice_rows(0, rows), of.v.slice_rows(0, rows), of.o.slice_rows(0, rows)};
}

Tensor lse_of(const AttentionSaved& saved, const ops::AttentionShape& inside) {
  return saved.lse.flat(0, inside.samples * inside.heads * inside.queries);
}

}  // namespace

ExchangingAttention::Heads ExchangingAttention::heads_of(const ops::AttentionShape& outside, int rank) const {
  const Range query = layout::part_of(outside.heads, rank, ranks_);
  ensure(query.count > 0, "every rank has heads inside");
  const std::int64_t first = outside.kv_head_of(query.first), last = outside.kv_head_of(query.end() - 1);
  return {query, {first, last + 1 - first}};
}

ops::AttentionShape ExchangingAttention::shape_of(const layout::ShardedDims& dims) {
  return {.heads = dims.heads,
          .kv_heads = dims.kv_heads,
          .head_size = dims.head_size,
          .group = dims.heads_per_kv,
          .skipped = dims.first_head - dims.first_kv_head * dims.heads_per_kv};
}

AttentionCall ExchangingAttention::inside(const AttentionCall& call) const {
  const Heads own = heads_of(call.shape, rank_);
  AttentionCall inner = call;
  inner.shape.queries = inner.shape.keys = inner.shape.key_rows = positions_;
  inner.shape.group = call.shape.group_size();
  inner.shape.heads = own.query.count;
  inner.shape.kv_heads = own.kv.count;
  inner.shape.skipped = call.shape.skipped + own.query.first - own.kv.first * inner.shape.group;
  inner.dropout.first_index += own.query.first * inner.dropout.index_stride;
  return inner;
}

void ExchangingAttention::declare_heads(Arena& arena, AttentionTensors& of, const AttentionSizes& sizes) const {
  const Heads own = heads_of(shape_of(sizes.dims), rank_);
  const std::int64_t rows = all_rows(samples_of(sizes)), size = sizes.dims.head_size;
  for (Tensor* t : {&of.q, &of.o}) arena.declare(*t, "heads of all positions", Shape{rows, own.query.count * size}, sizes.type);
  for (Tensor* t : {&of.k, &of.v}) arena.declare(*t, "heads of all positions", Shape{rows, own.kv.count * size}, sizes.type);
}

void ExchangingAttention::declare(Arena& arena, AttentionSaved& saved, const AttentionSizes& sizes) const {
  const Heads own = heads_of(shape_of(sizes.dims), rank_);
  arena.declare(saved.lse, "lse", Shape{all_rows(samples_of(sizes)) * own.query.count}, DType::f32);
  declare_heads(arena, saved.beside, sizes);
}

void ExchangingAttention::declare(Arena& arena, const AttentionSizes& sizes) {
  const ops::AttentionShape outside = shape_of(sizes.dims);
  const Heads own = heads_of(outside, rank_);
  const std::int64_t all = all_rows(samples_of(sizes)), size = sizes.dims.head_size;
  arena.declare(delta_, "delta", Shape{all, ops::delta_columns(own.query.count, size, sizes.type)}, DType::f32);
  declare_heads(arena, d_, sizes);
  std::int64_t query = 0, kv = 0;  // columns of what all ranks have inside
  query_.clear();
  kv_.clear();
  for (int rank = 0; rank < ranks_; ++rank) {
    const Heads heads = heads_of(outside, rank);
    query += query_.emplace_back(heads.query.first * size, heads.query.count * size).count;
    kv += kv_.emplace_back(heads.kv.first * size, heads.kv.count * size).count;
  }
  const std::int64_t most =
      std::max({sizes.rows * query, sizes.rows * kv, all * own.query.count * size, all * own.kv.count * size});
  arena.declare(sent_, "sent heads", Shape{most}, sizes.type);
  arena.declare(received_, "received heads", Shape{most}, sizes.type);
  outgoing_.resize(static_cast<std::size_t>(ranks_));
  incoming_.resize(static_cast<std::size_t>(ranks_));
}

void ExchangingAttention::forward(ops::Ops& ops, const AttentionTensors& x, const AttentionSaved& saved,
                                  const AttentionCall& call) {
  demand_own(call);
  const AttentionCall inner = inside(call);
  const std::int64_t samples = call.shape.samples;
  const AttentionTensors all = first_rows(saved.beside, all_rows(samples));
  inwards(ops, all.q, x.q, query_, samples);
  inwards(ops, all.k, x.k, kv_, samples);
  inwards(ops, all.v, x.v, kv_, samples);
  ops.attention().forward({all.o, lse_of(saved, inner.shape), all.q, all.k, all.v, inner.shape, inner.dropout});
  outwards(ops, x.o, all.o, query_, samples);
}

void ExchangingAttention::backward(ops::Ops& ops, const AttentionTensors& d, const AttentionTensors& /*x*/,
                                   const AttentionSaved& saved, const AttentionCall& call) {
  demand_own(call);
  const AttentionCall inner = inside(call);
  const std::int64_t samples = call.shape.samples;
  const AttentionTensors all = first_rows(saved.beside, all_rows(samples));
  const AttentionTensors d_all = first_rows(d_, all_rows(samples));
  inwards(ops, d_all.o, d.o, query_, samples);
  ops.attention().backward({.dq = d_all.q,
                            .dk = d_all.k,
                            .dv = d_all.v,
                            .delta = delta_.slice_rows(0, all_rows(samples)),
                            .d_o = d_all.o,
                            .o = all.o,
                            .lse = lse_of(saved, inner.shape),
                            .q = all.q,
                            .k = all.k,
                            .v = all.v,
                            .shape = inner.shape,
                            .dropout = inner.dropout});
  outwards(ops, d.q, d_all.q, query_, samples);
  outwards(ops, d.k, d_all.k, kv_, samples);
  outwards(ops, d.v, d_all.v, kv_, samples);
}

void ExchangingAttention::exchange(ops::Ops& ops) {
  const auto total = [](const std::vector<std::int64_t>& counts) {
    return std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
  };
  group_->all_to_all(received_.flat(0, total(incoming_)), incoming_, sent_.flat(0, total(outgoing_)), outgoing_)
      .join(ops.stream());
}

void ExchangingAttention::inwards(ops::Ops& ops, const Tensor& all, const Tensor& own, const Columns& columns,
                                  std::int64_t samples) {
  const std::int64_t width = of_rank(columns, rank_).count;
  std::int64_t at = 0;
  for (int rank = 0; rank < ranks_; ++rank) {
    const Range& theirs = of_rank(columns, rank);
    const Tensor message = sent_.flat(at, own.rows() * theirs.count).reshape({own.rows(), theirs.count});
    ops.elementwise().cast(message, own.slice_columns(theirs.first, theirs.count));
    at += outgoing_[static_cast<std::size_t>(rank)] = message.elements();
    incoming_[static_cast<std::size_t>(rank)] = rows_of(rank, samples) * width;
  }
  exchange(ops);
  at = 0;
  for (int rank = 0; rank < ranks_; ++rank) {
    const std::int64_t rows = rows_of(rank, samples);
    const Tensor message = received_.flat(at, rows * width).reshape({rows, width});
    for_runs(rank, samples, [&](std::int64_t to, std::int64_t from, std::int64_t count) {
      ops.elementwise().cast(all.slice_rows(to, count), message.slice_rows(from, count));
    });
    at += message.elements();
  }
}

void ExchangingAttention::outwards(ops::Ops& ops, const Tensor& own, const Tensor& all, const Columns& columns,
                                   std::int64_t samples) {
  const std::int64_t width = of_rank(columns, rank_).count;
  std::int64_t at = 0;
  for (int rank = 0; rank < ranks_; ++rank) {
    const std::int64_t rows = rows_of(rank, samples);
    const Tensor message = sent_.flat(at, rows * width).reshape({rows, width});
    for_runs(rank, samples, [&](std::int64_t from, std::int64_t to, std::int64_t count) {
      ops.elementwise().cast(message.slice_rows(to, count), all.slice_rows(from, count));
    });
    at += outgoing_[static_cast<std::size_t>(rank)] = message.elements();
    incoming_[static_cast<std::size_t>(rank)] = own.rows() * of_rank(columns, rank).count;
  }
  exchange(ops);
  std::int64_t written = 0;  // columns of `own` before which all have a value
  at = 0;
  for (int rank = 0; rank < ranks_; ++rank) {
    const Range& theirs = of_rank(columns, rank);
    const Tensor message = received_.flat(at, own.rows() * theirs.count).reshape({own.rows(), theirs.count});
    const std::int64_t again = std::clamp<std::int64_t>(written - theirs.first, 0, theirs.count), rest = theirs.count - again;
    if (again > 0) ops.elementwise().add(own.slice_columns(theirs.first, again), message.slice_columns(0, again));
    if (rest > 0) ops.elementwise().cast(own.slice_columns(theirs.first + again, rest), message.slice_columns(again, rest));
    written = std::max(written, theirs.end());
    at += message.elements();
  }
}

}  // namespace lockstep::parallel
