#pragma once

// All keys on every rank: each attends with its own queries alone.

#include <algorithm>

#include "support/positioned_attention.h"

namespace lockstep::support {

/// Every rank has the keys and values of all positions, and its own queries, which attend run by run.
class Gathering final : public Positioned {
 public:
  using Positioned::Positioned;

  void declare(Arena& arena, parallel::AttentionSaved& saved, const parallel::AttentionSizes& sizes) const override {
    arena.declare(saved.lse, "lse", Shape{sizes.rows * sizes.dims.heads}, DType::f32);
    for (Tensor* t : {&saved.beside.k, &saved.beside.v}) {
      arena.declare(*t, "all keys", Shape{grid_.rows(), sizes.dims.kv_width()}, sizes.type);
    }
  }
  void declare(Arena& arena, const parallel::AttentionSizes& sizes) override {
    const std::int64_t columns = ops::delta_columns(sizes.dims.heads, sizes.dims.head_size, sizes.type);
    arena.declare(delta_, "delta", Shape{sizes.rows, columns}, DType::f32);
    for (Tensor* t : {&message_, &d_.k, &d_.v}) {
      arena.declare(*t, "d_keys", Shape{grid_.rows(), sizes.dims.kv_width()}, sizes.type);
    }
    for (Tensor* t : {&part_.k, &part_.v}) {
      arena.declare(*t, "d_keys of a run", Shape{grid_.positions, sizes.dims.kv_width()}, sizes.type);
    }
  }

  void forward(ops::Ops& ops, const parallel::AttentionTensors& x, const parallel::AttentionSaved& saved,
               const parallel::AttentionCall& call) override {
    gather(saved.beside.k, x.k);
    gather(saved.beside.v, x.v);
    for_runs(call, [&](const Run& run) {
      const parallel::AttentionTensors some = run.of(x, saved.beside);
      ops.attention().forward({some.o, run.lse(saved), some.q, some.k, some.v, run.shape, run.dropout});
    });
  }
  void backward(ops::Ops& ops, const parallel::AttentionTensors& d, const parallel::AttentionTensors& x,
                const parallel::AttentionSaved& saved, const parallel::AttentionCall& call) override {
    for (const Tensor& sum : {d_.k, d_.v}) ops.elementwise().zero(sum);
    for_runs(call, [&](const Run& run) {
      const parallel::AttentionTensors some = run.of(x, saved.beside), d_some = run.of(d, d_);
      const Tensor dk = part_.k.slice_rows(0, run.shape.keys), dv = part_.v.slice_rows(0, run.shape.keys);
      ops.attention().backward({d_some.q, dk, dv, delta_.slice_rows(0, some.q.rows()), d_some.o, some.o, run.lse(saved), some.q,
                                some.k, some.v, run.shape, run.dropout});
      ops.elementwise().add(d_some.k, dk);
      ops.elementwise().add(d_some.v, dv);
    });
    take(d.k, d_.k);
    take(d.v, d_.v);
  }

 private:
  /// Neighbouring positions of one sample, and the keys up to the last of them.
  struct Run {
    std::int64_t first_row, first_key;  ///< among the rank's own rows, among all positions' rows
    ops::AttentionShape shape;
    ops::DropoutSite dropout;
    parallel::AttentionTensors of(const parallel::AttentionTensors& own, const parallel::AttentionTensors& all) const {
      return {own.q.slice_rows(first_row, shape.queries), all.k.slice_rows(first_key, shape.keys),
              all.v.slice_rows(first_key, shape.keys), own.o.slice_rows(first_row, shape.queries)};
    }
    Tensor lse(const parallel::AttentionSaved& saved) const {
      return saved.lse.flat(first_row * shape.heads, shape.queries * shape.heads);
    }
  };
  template <class Body>
  void for_runs(const parallel::AttentionCall& call, const Body& body) const {
    std::int64_t row = 0;
    for (std::int64_t sample = 0; sample < grid_.samples; ++sample) {
      for (const ops::PositionRun& positions : call.positions.runs()) {
        if (positions.count == 0) continue;
        Run run{row, sample * grid_.positions, call.shape, call.dropout};
        run.shape.samples = 1;
        run.shape.queries = positions.count;
        run.shape.keys = run.shape.key_rows = positions.end();
        run.dropout.first_sample += sample;
        body(run);
        row += positions.count;
      }
    }
  }
  /// all [all rows, columns] of every rank's own [its rows, columns].
  void gather(const Tensor& all, const Tensor& own) {
    std::vector<std::int64_t> counts;
    std::int64_t before = 0;
    for (int rank = 0; rank < ranks(); ++rank) {
      counts.push_back(rows_of(rank) * own.columns());
      before += rank < rank_ ? rows_of(rank) : 0;
    }
    for (std::int64_t row = 0; row < own.rows(); ++row) {
      std::copy_n(floats_of(own, row), own.columns(), floats_of(message_, before + row));
    }
    const Tensor flat = message_.reshape({message_.elements()});
    group_->all_gather(flat, flat.flat(before * own.columns(), own.elements()), counts).wait();
    std::int64_t from = 0;
    for (int rank = 0; rank < ranks(); ++rank) {
      for (std::int64_t row = 0; row < rows_of(rank); ++row, ++from) {
        std::copy_n(floats_of(message_, from), own.columns(), floats_of(all, place(rank, row)));
      }
    }
  }
  /// The rank's own rows of what all ranks have, summed.
  void take(const Tensor& own, const Tensor& all) {
    group_->all_reduce(all, comm::Reduction::sum).wait();
    for (std::int64_t row = 0; row < own.rows(); ++row) {
      std::copy_n(floats_of(all, place(rank_, row)), own.columns(), floats_of(own, row));
    }
  }

  Tensor delta_, message_;
  parallel::AttentionTensors d_, part_;
};

}  // namespace lockstep::support
