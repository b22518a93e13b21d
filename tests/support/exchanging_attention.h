#pragma once

// Positions against heads: while attention runs, each rank has all positions of a part of the heads (Ulysses).

#include <algorithm>

#include "layout/shard.h"
#include "support/positioned_attention.h"

namespace lockstep::support {

/// The heads that a rank sees all positions of, and the key/value heads that they read.
struct Heads {
  layout::Range query, kv;
};
inline Heads heads_of(const layout::ShardedDims& dims, int rank, int ranks) {
  const layout::TensorRank place{rank, ranks};
  return {layout::held_pieces({.pieces = dims.heads}, place),
          layout::held_pieces({.pieces = dims.kv_heads, .users = dims.heads_per_kv}, place)};
}

/// Rank r has positions cut[r] of all heads outside, and all positions of heads_of(r) when attention runs.
class Exchanging final : public Positioned {
 public:
  using Positioned::Positioned;

  void declare(Arena& arena, parallel::AttentionSaved& saved, const parallel::AttentionSizes& sizes) const override {
    arena.declare(saved.lse, "lse", Shape{grid_.rows() * heads(sizes.dims, rank_).query.count}, DType::f32);
    declare_heads(arena, saved.beside, sizes);
  }
  void declare(Arena& arena, const parallel::AttentionSizes& sizes) override {
    const std::int64_t here = heads(sizes.dims, rank_).query.count;
    const std::int64_t columns = ops::delta_columns(here, sizes.dims.head_size, sizes.type);
    arena.declare(delta_, "delta", Shape{grid_.rows(), columns}, DType::f32);
    declare_heads(arena, d_, sizes);
    const std::int64_t most = (grid_.rows() + sizes.rows * ranks()) * sizes.dims.attention_width();
    arena.declare(sent_, "sent", Shape{most}, sizes.type);
    arena.declare(received_, "received", Shape{most}, sizes.type);
  }

  void forward(ops::Ops& ops, const parallel::AttentionTensors& x, const parallel::AttentionSaved& saved,
               const parallel::AttentionCall& call) override {
    const Inner inner(*this, call);
    const parallel::AttentionTensors& all = saved.beside;
    inwards(all.q, x.q, inner.query);
    inwards(all.k, x.k, inner.kv);
    inwards(all.v, x.v, inner.kv);
    ops.attention().forward({all.o, saved.lse, all.q, all.k, all.v, inner.shape, inner.dropout});
    outwards(x.o, all.o, inner.query);
  }
  void backward(ops::Ops& ops, const parallel::AttentionTensors& d, const parallel::AttentionTensors& /*x*/,
                const parallel::AttentionSaved& saved, const parallel::AttentionCall& call) override {
    const Inner inner(*this, call);
    const parallel::AttentionTensors& all = saved.beside;
    inwards(d_.o, d.o, inner.query);
    ops.attention().backward({d_.q, d_.k, d_.v, delta_, d_.o, all.o, saved.lse, all.q, all.k, all.v, inner.shape, inner.dropout});
    outwards(d.q, d_.q, inner.query);
    outwards(d.k, d_.k, inner.kv);
    outwards(d.v, d_.v, inner.kv);
  }

 private:
  using HeadsOfRank = std::vector<layout::Range>;
  /// The call that attention gets: all positions, this rank's heads.
  struct Inner {
    Inner(const Exchanging& of, const parallel::AttentionCall& call) : shape(call.shape), dropout(call.dropout) {
      const layout::ShardedDims dims{.heads = shape.heads, .kv_heads = shape.kv_heads, .heads_per_kv = shape.group_size()};
      for (int rank = 0; rank < of.ranks(); ++rank) {
        const Heads heads = of.heads(dims, rank);
        query.push_back({heads.query.first * shape.head_size, heads.query.count * shape.head_size});
        kv.push_back({heads.kv.first * shape.head_size, heads.kv.count * shape.head_size});
      }
      const Heads own = of.heads(dims, of.rank_);
      shape.queries = shape.keys = shape.key_rows = of.grid_.positions;
      shape.group = dims.heads_per_kv;
      shape.heads = own.query.count;
      shape.kv_heads = own.kv.count;
      shape.skipped = own.query.first - own.kv.first * shape.group;
      dropout.first_index += own.query.first * dropout.index_stride;
    }
    ops::AttentionShape shape;
    ops::DropoutSite dropout;
    HeadsOfRank query, kv;  ///< columns
  };

  Heads heads(const layout::ShardedDims& dims, int rank) const { return heads_of(dims, rank, ranks()); }
  void declare_heads(Arena& arena, parallel::AttentionTensors& of, const parallel::AttentionSizes& sizes) const {
    const Heads own = heads(sizes.dims, rank_);
    for (Tensor* t : {&of.q, &of.o}) {
      arena.declare(*t, "heads", Shape{grid_.rows(), own.query.count * sizes.dims.head_size}, sizes.type);
    }
    for (Tensor* t : {&of.k, &of.v}) {
      arena.declare(*t, "kv_heads", Shape{grid_.rows(), own.kv.count * sizes.dims.head_size}, sizes.type);
    }
  }
  /// visit(rank, row, floats of a message) for every row of all messages, which have row_of(rank) rows of width_of(rank).
  template <class Rows, class Width, class Visit>
  void for_rows(const Tensor& messages, const Rows& row_count, const Width& width_of, const Visit& visit) const {
    float* at = elements<float>(messages).data();
    for (int rank = 0; rank < ranks(); ++rank) {
      for (std::int64_t row = 0; row < row_count(rank); ++row, at += width_of(rank)) visit(rank, row, at);
    }
  }
  template <class RowsSent, class WidthSent, class RowsReceived, class WidthReceived>
  void exchange(const RowsSent& rows_sent, const WidthSent& sent, const RowsReceived& rows_received,
                const WidthReceived& received) {
    std::vector<std::int64_t> to, from;
    std::int64_t out = 0, in = 0;
    for (int rank = 0; rank < ranks(); ++rank) {
      out += to.emplace_back(rows_sent(rank) * sent(rank));
      in += from.emplace_back(rows_received(rank) * received(rank));
    }
    group_->all_to_all(received_.flat(0, in), from, sent_.flat(0, out), to).wait();
  }
  /// all [all rows, columns of this rank's heads] of every rank's own [its rows, all columns].
  void inwards(const Tensor& all, const Tensor& own, const HeadsOfRank& columns) {
    const auto range = [&](int rank) { return columns[static_cast<std::size_t>(rank)]; };
    const auto mine = [&](int) { return rows_of(rank_); };
    const auto theirs = [&](int rank) { return rows_of(rank); };
    const auto width = [&](int rank) { return range(rank).count; };
    const auto width_here = [&](int) { return range(rank_).count; };
    for_rows(sent_, mine, width, [&](int rank, std::int64_t row, float* to) {
      std::copy_n(floats_of(own, row, range(rank).first), width(rank), to);
    });
    exchange(mine, width, theirs, width_here);
    for_rows(received_, theirs, width_here, [&](int rank, std::int64_t row, const float* from) {
      std::copy_n(from, width_here(rank), floats_of(all, place(rank, row)));
    });
  }
  /// The way back; what several ranks have of a head is summed.
  void outwards(const Tensor& own, const Tensor& all, const HeadsOfRank& columns) {
    const auto range = [&](int rank) { return columns[static_cast<std::size_t>(rank)]; };
    const auto mine = [&](int) { return rows_of(rank_); };
    const auto theirs = [&](int rank) { return rows_of(rank); };
    const auto width = [&](int rank) { return range(rank).count; };
    const auto width_here = [&](int) { return range(rank_).count; };
    for_rows(sent_, theirs, width_here,
             [&](int rank, std::int64_t row, float* to) { std::copy_n(floats_of(all, place(rank, row)), width_here(rank), to); });
    exchange(theirs, width_here, mine, width);
    for (std::int64_t row = 0; row < own.rows(); ++row) std::fill_n(floats_of(own, row), own.columns(), 0.0F);
    for_rows(received_, mine, width, [&](int rank, std::int64_t row, const float* from) {
      float* to = floats_of(own, row, range(rank).first);
      for (std::int64_t i = 0; i < width(rank); ++i) to[i] += from[i];
    });
  }

  Tensor delta_, sent_, received_;
  parallel::AttentionTensors d_;
};

}  // namespace lockstep::support
