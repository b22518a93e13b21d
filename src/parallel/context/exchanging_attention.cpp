#include "parallel/context/exchanging_attention.h"

#include <algorithm>

#include "layout/canonical_grid.h"
#include "parallel/context/ring_attention.h"

namespace lockstep::parallel {
namespace {

using layout::Range;

// The first `rows` rows of each tensor: a pass may have fewer samples than memory was declared for.
AttentionTensors first_rows(const AttentionTensors& of, std::int64_t rows) {
  return {of.q.slice_rows(0, rows), of.k.slice_rows(0, rows), of.v.slice_rows(0, rows), of.o.slice_rows(0, rows)};
}

}  // namespace

// Neighbouring parts make one part of as many as there are hosts: what a host's ranks have is divided in zigzag over hosts.
SplitAttention::Share ExchangingAttention::share_of(std::int64_t positions, int rank, int ranks, int hosts) {
  ensure(ranks % hosts == 0, "hosts have as many ranks each");
  const int members = ranks / hosts, host = rank / members;
  const ops::Positions together = split_positions(positions, host, hosts);
  Share share{together.count(), {}, rank % members, split_positions(positions, rank, ranks)};
  for (int member = 0; member < members; ++member) {
    const ops::Positions part = split_positions(positions, host * members + member, ranks);
    const auto counted = [&](const ops::PositionRun& run) { return ops::PositionRun{together.row_of(run.first), run.count}; };
    share.parts.emplace_back(counted(part.runs()[0]), counted(part.runs()[1]));
  }
  return share;
}

ExchangingAttention::ExchangingAttention(std::int64_t positions, int rank, int ranks, int hosts, bool canonical)
    : SplitAttention(share_of(positions, rank, ranks, hosts)),
      together_(split_positions(positions, rank / ranks_, hosts)),
      host_(rank / ranks_),
      canonical_(canonical) {
  ensure(!canonical || hosts == 1, "what a ring adds up has the order of the ring");
  if (hosts > 1)
    inner_ = std::make_unique<RingAttention>(positions, host_, hosts);
  else
    inner_ = make_local_attention(canonical);
}

void ExchangingAttention::connect(comm::Communicator& group) {
  if (group.size() == ranks_) return connect_exchange(group);
  of_host_ = group.split(host_, rank_);
  over_hosts_ = group.split(rank_, host_);
  connect_exchange(*of_host_);
  inner_->connect(*over_hosts_);
}

void ExchangingAttention::connect_exchange(comm::Communicator& group) {
  SplitAttention::connect(group);
  exchange_.connect(group, comm::Purpose::keys);
}

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

layout::ShardedDims ExchangingAttention::dims_inside(const layout::ShardedDims& outside) const {
  const Heads own = heads_of(shape_of(outside), rank_);
  layout::ShardedDims dims = outside;
  dims.heads = own.query.count;
  dims.kv_heads = own.kv.count;
  dims.first_head += own.query.first;
  dims.first_kv_head += own.kv.first;
  return dims;
}

AttentionCall ExchangingAttention::inside(const AttentionCall& call) const {
  const Heads own = heads_of(call.shape, rank_);
  AttentionCall inner = call;
  inner.parts = {};  // of hosts
  inner.positions = together_;
  inner.shape.queries = inner.shape.keys = inner.shape.key_rows = positions_;
  inner.shape.group = call.shape.group_size();
  inner.shape.heads = own.query.count;
  inner.shape.kv_heads = own.kv.count;
  inner.shape.skipped = call.shape.skipped + own.query.first - own.kv.first * inner.shape.group;
  inner.dropout.first_index += own.query.first * inner.dropout.index_stride;
  return inner;
}

void ExchangingAttention::declare_heads(Arena& arena, AttentionTensors& of, const AttentionSizes& sizes, DType of_keys) const {
  const Heads own = heads_of(shape_of(sizes.dims), rank_);
  const std::int64_t rows = all_rows(samples_of(sizes)), size = sizes.dims.head_size;
  for (Tensor* t : {&of.q, &of.o}) arena.declare(*t, "heads of all positions", Shape{rows, own.query.count * size}, sizes.type);
  for (Tensor* t : {&of.k, &of.v}) arena.declare(*t, "heads of all positions", Shape{rows, own.kv.count * size}, of_keys);
}

void ExchangingAttention::declare(Arena& arena, AttentionSaved& saved, const AttentionSizes& sizes) const {
  inner_->declare(arena, saved, {all_rows(samples_of(sizes)), dims_inside(sizes.dims), sizes.type});
  declare_heads(arena, saved.beside, sizes, sizes.type);
}

void ExchangingAttention::declare(Arena& arena, const AttentionSizes& sizes) {
  const ops::AttentionShape outside = shape_of(sizes.dims);
  const Heads own = heads_of(outside, rank_);
  const std::int64_t all = all_rows(samples_of(sizes)), size = sizes.dims.head_size;
  inner_->declare(arena, {all, dims_inside(sizes.dims), sizes.type});
  const bool sums = canonical_ && layout::ranks_share_kv_heads(sizes.dims, ranks_);
  declare_heads(arena, d_, sizes, sums ? DType::f32 : sizes.type);
  if (sums) arena.declare(key_sums_, "sums of all ranks' heads", Shape{all, sizes.dims.kv_width()}, DType::f32);
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
  exchange_.declare(arena, most, sizes.type);
}

void ExchangingAttention::forward(ops::Ops& ops, const AttentionTensors& x, const AttentionSaved& saved,
                                  const AttentionCall& call) {
  over_hosts_ ? demand_own(call) : take_parts(call);
  const AttentionCall inner = inside(call);
  const std::int64_t samples = call.shape.samples;
  const SplitRows rows = split_rows(samples);
  const AttentionTensors all = first_rows(saved.beside, all_rows(samples));
  exchange_.inwards(ops, all.q, x.q, query_, rows);
  exchange_.inwards(ops, all.k, x.k, kv_, rows);
  exchange_.inwards(ops, all.v, x.v, kv_, rows);
  inner_->forward(ops, all, saved, inner);
  exchange_.outwards(ops, x.o, all.o, query_, rows);
}

void ExchangingAttention::backward(ops::Ops& ops, const AttentionTensors& d, const AttentionTensors& /*x*/,
                                   const AttentionSaved& saved, const AttentionCall& call) {
  over_hosts_ ? demand_own(call) : take_parts(call);
  const AttentionCall inner = inside(call);
  const std::int64_t samples = call.shape.samples;
  const SplitRows rows = split_rows(samples);
  const AttentionTensors all = first_rows(saved.beside, all_rows(samples));
  const AttentionTensors d_all = first_rows(d_, all_rows(samples));
  exchange_.inwards(ops, d_all.o, d.o, query_, rows);
  inner_->backward(ops, d_all, all, saved, inner);
  exchange_.outwards(ops, d.q, d_all.q, query_, rows);
  if (key_sums_.shape.rank() > 0) {
    add_heads(ops, d.k, d_all.k, samples);
    add_heads(ops, d.v, d_all.v, samples);
  } else {
    exchange_.outwards(ops, d.k, d_all.k, kv_, rows);
    exchange_.outwards(ops, d.v, d_all.v, kv_, rows);
  }
}

void ExchangingAttention::add_heads(ops::Ops& ops, const Tensor& own, const Tensor& part, std::int64_t samples) {
  const Tensor sums = key_sums_.slice_rows(0, all_rows(samples));
  const Range& columns = kv_[static_cast<std::size_t>(rank_)];
  ops.elementwise().zero(sums);
  ops.elementwise().cast(sums.slice_columns(columns.first, columns.count), part);
  group_->moving(comm::Purpose::keys).all_reduce(sums, comm::Reduction::sum).join(ops.stream());
  for_runs(rank_, samples, [&](std::int64_t from, std::int64_t to, std::int64_t count) {
    ops.elementwise().cast(own.slice_rows(to, count), sums.slice_rows(from, count));
  });
}

}  // namespace lockstep::parallel
