#include "parallel/context/materialised_attention.h"

namespace lockstep::parallel {

void MaterialisedAttention::declare(Arena& arena, AttentionSaved& saved, const AttentionSizes& sizes) const {
  arena.declare(saved.weights, "attention weights", Shape{sizes.rows * sizes.dims.heads, positions_}, DType::f32);
  if (masked_) arena.declare(saved.mask, "mask", Shape{positions_, positions_}, DType::f32);
}

void MaterialisedAttention::declare(Arena& arena, const AttentionSizes& sizes) {
  const layout::ShardedDims& dims = sizes.dims;
  arena.declare(delta_, "delta", Shape{sizes.rows, dims.heads}, DType::f32);
  arena.declare(aside_, "attention weights on the way", Shape{sizes.rows * dims.heads, positions_}, DType::f32);
  if (sizes.type == DType::f32 || dims.heads_per_kv == 1) return;
  arena.declare(d_k_, "gradients of shared keys", Shape{sizes.rows, dims.kv_width()}, DType::f32);
  arena.declare(d_v_, "gradients of shared values", Shape{sizes.rows, dims.kv_width()}, DType::f32);
}

ops::WholeWeights MaterialisedAttention::whole(const AttentionSaved& saved, const AttentionCall& call) const {
  demand_all_positions(call);
  const ops::AttentionShape& shape = call.shape;
  const std::int64_t rows = shape.samples * shape.heads * shape.queries;
  const auto top = [&](const Tensor& matrix, std::int64_t count) {
    return matrix.flat(0, count * shape.keys).reshape({count, shape.keys});
  };
  return {.weights = top(saved.weights, rows),
          .aside = top(aside_, rows),
          .mask = masked_ ? top(saved.mask, shape.queries) : Tensor{}};
}

void MaterialisedAttention::forward(ops::Ops& ops, const AttentionTensors& x, const AttentionSaved& saved,
                                    const AttentionCall& call) {
  ops.attention().forward({.o = x.o,
                           .lse = {},
                           .q = x.q,
                           .k = x.k,
                           .v = x.v,
                           .shape = call.shape,
                           .dropout = call.dropout,
                           .starts = call.starts,
                           .whole = whole(saved, call)});
}

void MaterialisedAttention::backward(ops::Ops& ops, const AttentionTensors& d, const AttentionTensors& x,
                                     const AttentionSaved& saved, const AttentionCall& call) {
  const std::int64_t rows = x.q.rows();
  const Tensor dk = d_k_ ? d_k_.slice_rows(0, rows) : d.k, dv = d_v_ ? d_v_.slice_rows(0, rows) : d.v;
  ops.attention().backward({.dq = d.q,
                            .dk = dk,
                            .dv = dv,
                            .delta = delta_.slice_rows(0, rows),
                            .d_o = d.o,
                            .o = x.o,
                            .lse = {},
                            .q = x.q,
                            .k = x.k,
                            .v = x.v,
                            .shape = call.shape,
                            .dropout = call.dropout,
                            .starts = call.starts,
                            .whole = whole(saved, call)});
  if (!d_k_) return;
  ops.elementwise().finish_sums(d.k, dk, {}, {});
  ops.elementwise().finish_sums(d.v, dv, {}, {});
}

}  // namespace lockstep::parallel
