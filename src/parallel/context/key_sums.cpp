#include "parallel/context/key_sums.h"

#include "layout/canonical_grid.h"

namespace lockstep::parallel {

KeySums::KeySums(const layout::ShardedDims& dims, std::int64_t all, int context_ranks)
    : dims_(dims), all_(all), any_(layout::ranks_share_kv_heads(dims, context_ranks)) {}

void KeySums::declare(Arena& workspace, std::int64_t rows) {
  if (any_) workspace.declare(sums_, "sums of key/value heads", Shape{2, rows, all_ * dims_.head_size}, DType::f32);
}

Tensor KeySums::sums(std::int64_t number, std::int64_t rows) const {
  const std::int64_t width = all_ * dims_.head_size;
  return sums_.flat(number * rows * width, rows * width).reshape(Shape{rows, width});
}

Tensor KeySums::own(const Tensor& sums) const {
  return sums.slice_columns(dims_.first_kv_head * dims_.head_size, dims_.kv_width());
}

// Ranks that have nothing of a head add zeros.
AttentionTensors KeySums::begin(ops::Ops& ops, const AttentionTensors& d) const {
  if (!any_) return d;
  const Tensor k = sums(0, d.k.rows()), v = sums(1, d.k.rows());
  for (const Tensor& sum : {k, v}) ops.elementwise().zero(sum);
  return {d.q, own(k), own(v), d.o};
}

void KeySums::finish(ops::Ops& ops, Boundary& boundary, const AttentionTensors& d) const {
  if (!any_) return;
  const Tensor k = sums(0, d.k.rows()), v = sums(1, d.k.rows());
  if (layout::tensor_ranks_share_kv_heads(dims_)) {
    for (const Tensor& sum : {k, v}) boundary.add_up(sum).wait();
  }
  ops.elementwise().cast(d.k, own(k));
  ops.elementwise().cast(d.v, own(v));
}

}  // namespace lockstep::parallel
