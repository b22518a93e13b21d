#include "parallel/context/gathering_attention.h"

#include <algorithm>

namespace lockstep::parallel {

void GatheringAttention::declare(Arena& arena, AttentionSaved& saved, const AttentionSizes& sizes) const {
  arena.declare(saved.lse, "lse", Shape{sizes.rows * sizes.dims.heads}, DType::f32);
  for (Tensor* t : {&saved.beside.k, &saved.beside.v})
    arena.declare(*t, "all keys and values", Shape{all_rows(samples_of(sizes)), sizes.dims.kv_width()}, sizes.type);
}

void GatheringAttention::declare(Arena& arena, const AttentionSizes& sizes) {
  const std::int64_t width = sizes.dims.kv_width(), all = all_rows(samples_of(sizes));
  const std::int64_t columns = ops::delta_columns(sizes.dims.heads, sizes.dims.head_size, sizes.type);
  arena.declare(delta_, "delta", Shape{sizes.rows, columns}, DType::f32);
  declare_forward(arena, sizes);
  for (Tensor* t : {&dk_sums_, &dv_sums_}) arena.declare(*t, "gradients of all keys", Shape{all, width}, DType::f32);
  for (Tensor* t : {&dk_, &dv_}) arena.declare(*t, "gradients of a run's keys", Shape{positions_, width}, sizes.type);
  if (sizes.type != DType::f32) arena.declare(widened_, "gradients of a run's keys", Shape{positions_, width}, DType::f32);
}

void GatheringAttention::declare_forward(Arena& arena, const AttentionSizes& sizes) {
  arena.declare(message_, "gathered keys", Shape{all_rows(samples_of(sizes)), sizes.dims.kv_width()}, sizes.type);
  counts_.resize(static_cast<std::size_t>(ranks_));
}

AttentionTensors GatheringAttention::Run::of(const AttentionTensors& own, const AttentionTensors& all) const {
  return {own.q.slice_rows(first_row, shape.queries), all.k.slice_rows(first_key, shape.keys),
          all.v.slice_rows(first_key, shape.keys), own.o.slice_rows(first_row, shape.queries)};
}

Tensor GatheringAttention::Run::lse(const AttentionSaved& saved) const {
  return saved.lse.flat(first_row * shape.heads, shape.queries * shape.heads);
}

GatheringAttention::Run GatheringAttention::run_of(const AttentionCall& call, std::int64_t all, std::int64_t own,
                                                   std::int64_t count) const {
  const std::int64_t sample = all / positions_;
  Run run{own, sample * positions_, call.shape, call.dropout, call.starts ? call.starts.slice_rows(sample, 1) : Tensor{}};
  run.shape.samples = 1;
  run.shape.queries = count;
  run.shape.keys = run.shape.key_rows = all + count - run.first_key;
  run.dropout.first_sample += sample;
  return run;
}

void GatheringAttention::forward(ops::Ops& ops, const AttentionTensors& x, const AttentionSaved& saved,
                                 const AttentionCall& call) {
  take_parts(call);
  gather(ops, saved.beside.k, x.k, call.shape.samples);
  gather(ops, saved.beside.v, x.v, call.shape.samples);
  for_runs(rank_, call.shape.samples, [&](std::int64_t all, std::int64_t own, std::int64_t count) {
    const Run run = run_of(call, all, own, count);
    const AttentionTensors some = run.of(x, saved.beside);
    ops.attention().forward({.o = some.o,
                             .lse = run.lse(saved),
                             .q = some.q,
                             .k = some.k,
                             .v = some.v,
                             .shape = run.shape,
                             .dropout = run.dropout,
                             .starts = run.starts});
  });
}

void GatheringAttention::backward(ops::Ops& ops, const AttentionTensors& d, const AttentionTensors& x,
                                  const AttentionSaved& saved, const AttentionCall& call) {
  take_parts(call);
  const std::int64_t samples = call.shape.samples;
  const Tensor dk_sums = dk_sums_.slice_rows(0, all_rows(samples)), dv_sums = dv_sums_.slice_rows(0, all_rows(samples));
  for (const Tensor& sums : {dk_sums, dv_sums}) ops.elementwise().zero(sums);
  for_runs(rank_, samples, [&](std::int64_t all, std::int64_t own, std::int64_t count) {
    const Run run = run_of(call, all, own, count);
    const AttentionTensors some = run.of(x, saved.beside);
    const Tensor dk = dk_.slice_rows(0, run.shape.keys), dv = dv_.slice_rows(0, run.shape.keys);
    ops.attention().backward({.dq = d.q.slice_rows(own, count),
                              .dk = dk,
                              .dv = dv,
                              .delta = delta_.slice_rows(0, count),
                              .d_o = d.o.slice_rows(own, count),
                              .o = some.o,
                              .lse = run.lse(saved),
                              .q = some.q,
                              .k = some.k,
                              .v = some.v,
                              .shape = run.shape,
                              .dropout = run.dropout,
                              .starts = run.starts});
    add(ops, dk_sums, dk, all / positions_, samples);
    add(ops, dv_sums, dv, all / positions_, samples);
  });
  scatter(ops, d.k, dk_sums, samples);
  scatter(ops, d.v, dv_sums, samples);
}

std::int64_t GatheringAttention::before(int rank, std::int64_t samples) const {
  std::int64_t rows = 0;
  for (int r = 0; r < rank; ++r) rows += rows_of(r, samples);
  return rows;
}

const std::vector<std::int64_t>& GatheringAttention::elements_of_ranks(std::int64_t samples, std::int64_t columns) {
  for (int rank = 0; rank < ranks_; ++rank) counts_[static_cast<std::size_t>(rank)] = rows_of(rank, samples) * columns;
  return counts_;
}

void GatheringAttention::gather(ops::Ops& ops, const Tensor& all, const Tensor& own, std::int64_t samples) {
  const Tensor message = message_.slice_rows(0, all_rows(samples));
  const Tensor place = message.slice_rows(before(rank_, samples), own.rows());
  ops.elementwise().cast(place, own);
  group_->moving(comm::Purpose::keys).all_gather(message, place, elements_of_ranks(samples, own.columns())).join(ops.stream());
  for (int rank = 0; rank < ranks_; ++rank) {
    const std::int64_t first = before(rank, samples);
    for_runs(rank, samples, [&](std::int64_t to, std::int64_t from, std::int64_t count) {
      ops.elementwise().cast(all.slice_rows(to, count), message.slice_rows(first + from, count));
    });
  }
}

void GatheringAttention::add(ops::Ops& ops, const Tensor& sums, const Tensor& part, std::int64_t sample,
                             std::int64_t samples) const {
  Tensor wide = part;
  if (part.dtype != DType::f32) {
    wide = widened_.slice_rows(0, part.rows());
    ops.elementwise().cast(wide, part);
  }
  for (int rank = 0; rank < ranks_; ++rank) {
    const ops::Positions theirs = positions_of(rank);
    std::int64_t row = before(rank, samples) + sample * theirs.count();
    for (const ops::PositionRun& run : theirs.runs()) {
      const std::int64_t count = std::clamp<std::int64_t>(part.rows() - run.first, 0, run.count);
      if (count > 0) ops.elementwise().add(sums.slice_rows(row, count), wide.slice_rows(run.first, count));
      row += run.count;
    }
  }
}

void GatheringAttention::scatter(ops::Ops& ops, const Tensor& own, const Tensor& sums, std::int64_t samples) {
  const Tensor place = sums.slice_rows(before(rank_, samples), own.rows());
  group_->moving(comm::Purpose::keys)
      .reduce_scatter(place, sums, elements_of_ranks(samples, own.columns()), comm::Reduction::sum)
      .join(ops.stream());
  ops.elementwise().cast(own, place);
}

}  // namespace lockstep::parallel
