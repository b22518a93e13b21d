#include "model/head.h"

#include <algorithm>

#include "base/checked.h"

namespace lockstep::model {

using arch::Role;

std::int64_t Head::chunk_rows(const layout::ShardedDims& dims, std::int64_t rows) {
  constexpr std::int64_t multiple = 256;
  constexpr std::int64_t elements = 2 << 20;
  const std::int64_t fitting = std::max<std::int64_t>(1, elements / (dims.vocabulary * multiple)) * multiple;
  return std::min(rows, fitting);
}

void Head::declare(Arena& arena, std::int64_t rows, bool training) {
  const Arena::Mark start = arena.mark();
  const std::int64_t width = context_.dims.width;
  const DType type = context_.parameters.dtype();
  arena.declare(normed_, "normed", Shape{rows, width}, type);
  arena.declare(stats_, "stats", Shape{rows, 2}, DType::f32);
  arena.declare(logits_, "logits", Shape{chunk_rows(context_.dims, rows), context_.dims.vocabulary}, DType::f32);
  if (training) arena.declare(d_normed_, "d_normed", Shape{rows, width}, type);
  arena.rewind(start);
}

void Head::norm(const Tensor& x, const Weights& w) {
  norm_.forward(normed_.slice_rows(0, x.rows()), stats_.slice_rows(0, x.rows()), x, w.head[Role::final_gain],
                w.head[Role::final_bias], context_.config.norm_eps);
}

double Head::loss_and_gradient(const Tensor& x, const Tensor& targets, const Tensor& scale, const Weights& w,
                               const Gradients& gradient, ops::WeightSink& sink, const Tensor& d) {
  const std::int64_t rows = x.rows();
  norm(x, w);
  double sum = 0;
  for (std::int64_t first = 0; first < rows; first += logits_.rows()) {
    const std::int64_t count = std::min(logits_.rows(), rows - first);
    const Tensor normed = normed_.slice_rows(first, count);
    const Tensor logits = logits_.slice_rows(0, count);
    context_.ops.linear().forward(logits, normed, w.projection);
    context_.ops.loss().forward(logits, targets.flat(first, count), context_.dims.vocabulary, scale, sum);
    context_.ops.linear().backward_input(d_normed_.slice_rows(first, count), logits, w.projection);
    sink.push({normed, logits, gradient.projection, {}, first > 0 || gradient.accumulate_projection});
  }
  norm_.backward(d, {}, gradient.head[Role::final_gain], gradient.head[Role::final_bias], d_normed_.slice_rows(0, rows), x,
                 stats_.slice_rows(0, rows), w.head[Role::final_gain], w.head[Role::final_bias], {}, gradient.accumulate_head);
  return sum;
}

double Head::loss(const Tensor& x, const Tensor& targets, const Weights& w) {
  const std::int64_t rows = x.rows();
  norm(x, w);
  double sum = 0;
  for (std::int64_t first = 0; first < rows; first += logits_.rows()) {
    const std::int64_t count = std::min(logits_.rows(), rows - first);
    const Tensor logits = logits_.slice_rows(0, count);
    context_.ops.linear().forward(logits, normed_.slice_rows(first, count), w.projection);
    context_.ops.loss().forward(logits, targets.flat(first, count), context_.dims.vocabulary, {}, sum);
  }
  return sum;
}

void Head::logits(const Tensor& logits, const Tensor& x, const Weights& w) {
  norm(x, w);
  context_.ops.linear().forward(logits, normed_.slice_rows(0, x.rows()), w.projection);
}

}  // namespace lockstep::model
