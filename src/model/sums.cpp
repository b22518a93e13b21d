#include "model/sums.h"

#include <numeric>
#include <utility>

#include "model/context.h"

namespace lockstep::model {

Sums::Sums(const layout::ShardedDims& dims, parallel::WholeSamples whole_samples, const parallel::KeySums& key_sums)
    : samples(std::move(whole_samples)),
      keys(key_sums),
      judged{0, dims.vocabulary},
      judgers{{dims.vocabulary_part, dims.first_token, dims.vocabulary}},
      all_judgers(dims.vocabulary_parts),
      dims_(dims) {}

void Sums::push(const ops::WeightWork& work) {
  ops_->linear().backward_weight(work.gradient, work.bias_gradient, work.dy, work.x, work.accumulate, work.grid);
}

void Sums::norm_backward(ops::Norm& norm, parallel::Boundary& /*boundary*/, const Pass& /*pass*/, const ops::NormBackward& call) {
  norm.backward(call);
}

ops::NormBackward HeadsBackward::head(std::int64_t head, std::int64_t first, std::int64_t count) const {
  const std::int64_t size = gain.elements();
  const auto part = [&](const Tensor& of) { return of.slice_rows(first, count).slice_columns(head * size, size); };
  return {.dx = part(d),
          .n = {},
          .d_gain = d_gain,
          .d_bias = {},
          .dn = part(d),
          .x = part(x),
          .stats = stats.slice_rows(head * x.rows() + first, count),
          .gain = gain,
          .bias = {},
          .residual = {},
          .accumulate = accumulate};
}

void Sums::heads_backward(ops::Norm& norm, parallel::Boundary& /*boundary*/, const Pass& /*pass*/, const HeadsBackward& call) {
  for (std::int64_t head = 0; head * call.gain.elements() < call.x.columns(); ++head) {
    ops::NormBackward one = call.head(head, 0, call.x.rows());
    one.accumulate = call.accumulate || head > 0;
    norm.backward(one);
  }
}

void Sums::width_gain(ops::SplitNorm& norm, const Pass& /*pass*/, const WidthGain& call) {
  norm.gain_gradient(call.d_gain, call.d, call.x, call.rstd, call.accumulate);
}

// The sum of rows is that of a table of one position.
void Sums::sum_rows(parallel::Boundary& /*boundary*/, const Pass& /*pass*/, const Tensor& sum, const Tensor& rows,
                    bool accumulate) {
  ops_->embedding().backward_positions(sum.reshape(Shape{1, sum.elements()}), rows, {0, 1}, accumulate);
}

void Sums::embed_backward(parallel::Boundary& boundary, const Pass& pass, const EmbeddingBackward& call) {
  if (call.d_positions) {
    const Pass outside = outside_pass(pass, boundary);
    ops_->embedding().backward_positions(call.d_positions, call.outside, outside.positions, call.accumulate, outside.starts);
  }
  ops_->embedding().backward_tokens(call.d_tokens, call.inside, call.tokens, dims_.first_token);
}

double Sums::total(std::span<double> losses) const { return std::accumulate(losses.begin(), losses.end(), 0.0); }

}  // namespace lockstep::model
