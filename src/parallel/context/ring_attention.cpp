#include "parallel/context/ring_attention.h"

#include <algorithm>
#include <utility>

namespace lockstep::parallel {

void RingAttention::Passing::join(ops::Ops& ops) {
  sent.join(ops.stream());
  received.join(ops.stream());
}

template <class Use>
void RingAttention::for_blocks(const AttentionCall& call, int from, const Use& use) const {
  const ops::Positions own = positions_of(rank_), theirs = positions_of(from);
  for (std::int64_t sample = 0; sample < call.shape.samples; ++sample) {
    const Tensor starts = call.starts ? call.starts.slice_rows(sample, 1) : Tensor{};
    std::int64_t row = sample * own.count();
    for (const ops::PositionRun& queries : own.runs()) {
      // From the last key on, so that queries come to their own run first.
      std::int64_t key_row = (sample + 1) * theirs.count();
      for (auto keys = theirs.runs().rbegin(); keys != theirs.runs().rend(); ++keys) {
        key_row -= keys->count;
        if (keys->first > queries.first || keys->count == 0 || queries.count == 0) continue;
        Block block{row, key_row, call.shape, call.dropout, starts, keys->first != queries.first};
        block.shape.samples = 1;
        block.shape.queries = queries.count;
        block.shape.keys = block.shape.key_rows = keys->count;
        block.shape.first_key = keys->first;
        block.shape.later = queries.end() - keys->end();
        block.dropout.first_sample += sample;
        use(std::as_const(block));
      }
      row += queries.count;
    }
  }
}

std::int64_t RingAttention::most_rows(std::int64_t samples) const {
  std::int64_t most = 0;
  for (int rank = 0; rank < ranks_; ++rank) most = std::max(most, rows_of(rank, samples));
  return most;
}

void RingAttention::declare(Arena& arena, AttentionSaved& saved, const AttentionSizes& sizes) const {
  arena.declare(saved.lse, "lse", Shape{sizes.rows * sizes.dims.heads}, DType::f32);
}

void RingAttention::declare(Arena& arena, const AttentionSizes& sizes) {
  const std::int64_t most = most_rows(samples_of(sizes)), width = sizes.dims.kv_width();
  for (Tensor& keys : keys_) arena.declare(keys, "keys and values that pass by", Shape{2 * most, width}, sizes.type);
  for (Tensor& sums : sums_) arena.declare(sums, "gradients of keys that pass by", Shape{2 * most, width}, DType::f32);
  const ops::Positions own = positions_of(rank_);
  std::int64_t rows = 0;
  for (const ops::PositionRun& run : own.runs()) rows = std::max(rows, run.count);
  const std::int64_t columns = ops::delta_columns(sizes.dims.heads, sizes.dims.head_size, DType::f32);
  arena.declare(delta_, "delta", Shape{rows, columns}, DType::f32);
  if (sizes.type != DType::f32)
    arena.declare(wide_, "sums of queries", Shape{sizes.rows, sizes.dims.attention_width()}, DType::f32);
}

RingAttention::Pair RingAttention::pair(const Tensor& memory, int from, std::int64_t samples) const {
  const std::int64_t rows = rows_of(from, samples);
  const Tensor both = memory.slice_rows(0, 2 * rows);
  return {both, both.slice_rows(0, rows), both.slice_rows(rows, rows)};
}

void RingAttention::set_out(ops::Ops& ops, const AttentionTensors& x, std::int64_t samples) {
  const Pair own = keys_at(0, samples);
  ops.elementwise().cast(own.k, x.k);
  ops.elementwise().cast(own.v, x.v);
}

RingAttention::Passing RingAttention::pass_keys(int hop, std::int64_t samples) {
  if (hop + 1 == ranks_) return {};
  return {.sent = group_->moving(comm::Purpose::keys).send(keys_at(hop, samples).both, origin(-1)),
          .received = group_->moving(comm::Purpose::keys).receive(keys_at(hop + 1, samples).both, origin(1))};
}

void RingAttention::forward(ops::Ops& ops, const AttentionTensors& x, const AttentionSaved& saved, const AttentionCall& call) {
  take_parts(call);
  const Tensor o = sums_of(x.o);
  set_out(ops, x, call.shape.samples);
  for (int hop = 0; hop < ranks_; ++hop) {
    Passing passing = pass_keys(hop, call.shape.samples);
    const Pair keys = keys_at(hop, call.shape.samples);
    for_blocks(call, origin(hop), [&](const Block& block) {
      ops.attention().forward({.o = block.queries(o),
                               .lse = block.lse(saved),
                               .q = block.queries(x.q),
                               .k = block.keys(keys.k),
                               .v = block.keys(keys.v),
                               .shape = block.shape,
                               .dropout = block.dropout,
                               .further = block.further,
                               .starts = block.starts});
    });
    passing.join(ops);
  }
  if (x.o.dtype != DType::f32) ops.elementwise().cast(x.o, o);
}

// The gradient of keys follows them a hop behind: what a rank adds to it is made while it is on its way. After the last hop it
// goes once more, home.
void RingAttention::backward(ops::Ops& ops, const AttentionTensors& d, const AttentionTensors& x, const AttentionSaved& saved,
                             const AttentionCall& call) {
  take_parts(call);
  const std::int64_t samples = call.shape.samples;
  const Tensor dq = sums_of(d.q);
  set_out(ops, x, samples);
  comm::Request sent;
  for (int hop = 0; hop < ranks_; ++hop) {
    comm::Request received;
    if (hop > 0) received = group_->moving(comm::Purpose::keys).receive(sums_at(hop + 1, hop, samples).both, origin(1));
    Passing passing = pass_keys(hop, samples);
    const Pair keys = keys_at(hop, samples), sums = sums_at(hop, hop, samples);
    if (hop > 0) ops.elementwise().zero(sums.both);
    for_blocks(call, origin(hop), [&](const Block& block) {
      ops.attention().backward({.dq = block.queries(dq),
                                .dk = block.keys(sums.k),
                                .dv = block.keys(sums.v),
                                .delta = delta_.slice_rows(0, block.shape.queries),
                                .d_o = block.queries(d.o),
                                .o = block.queries(x.o),
                                .lse = block.lse(saved),
                                .q = block.queries(x.q),
                                .k = block.keys(keys.k),
                                .v = block.keys(keys.v),
                                .shape = block.shape,
                                .dropout = block.dropout,
                                .further = block.further,
                                .starts = block.starts});
    });
    received.join(ops.stream());
    if (hop > 0) ops.elementwise().add(sums.both, sums_at(hop + 1, hop, samples).both);
    sent.join(ops.stream());
    passing.join(ops);
    if (ranks_ > 1) sent = group_->moving(comm::Purpose::keys).send(sums.both, origin(-1));
  }
  const Pair home = sums_at(ranks_ > 1 ? ranks_ : 0, ranks_, samples);
  if (ranks_ > 1) group_->moving(comm::Purpose::keys).receive(home.both, origin(1)).join(ops.stream());
  sent.join(ops.stream());
  ops.elementwise().cast(d.k, home.k);
  ops.elementwise().cast(d.v, home.v);
  if (d.q.dtype != DType::f32) ops.elementwise().cast(d.q, dq);
}

}  // namespace lockstep::parallel
