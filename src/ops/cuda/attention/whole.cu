// Attention whose weights lie whole in memory: products of whole heads, and between them passes over the scores of all heads.

#include <limits>

#include "ops/cuda/attention/attention.h"
#include "ops/cuda/device/each.cuh"
#include "ops/cuda/device/lanes.cuh"
#include "ops/cuda/device/math.cuh"
#include "ops/cuda/device/philox.cuh"
#include "ops/cuda/product/product.h"

namespace lockstep::ops::cuda {
namespace {

constexpr float unseen = -std::numeric_limits<float>::infinity();

/// A row of scores: of query `query` of a head of a sample.
struct ScoreRow {
  std::int64_t sample, head, query;
};

/// Scores [B*H*T, T] and what says which keys a query sees.
struct Scores {
  float *weights, *aside;
  std::int64_t heads, rows;
  float scale;
  const float* mask;           // [T, T] or null
  const std::int32_t* starts;  // [B, starts_stride] or null
  std::int64_t starts_stride;
  DropMask drops;
  std::int64_t first_sample, first_index, index_stride;

  __device__ __forceinline__ ScoreRow row(std::int64_t i) const {
    const std::int64_t number = i / rows, sample = number / heads;
    return {sample, number - sample * heads, i - number * rows};
  }
  __device__ __forceinline__ float factor(const ScoreRow& at, std::int64_t key) const {
    const bool kept = drops.keeps(first_sample + at.sample, at.query, first_index + at.head * index_stride + key);
    return kept ? drops.kept : 0.0F;
  }
};

struct StoreMask {
  float* mask;
  std::int64_t rows;
  __device__ void operator()(std::int64_t i, std::int64_t j) const { mask[i * rows + j] = j <= i ? 0.0F : unseen; }
};

/// Scales and hides scores, and makes them weights that add up to one.
struct Softmax {
  Scores scores;
  __device__ void operator()(std::int64_t i, int lane) const {
    const ScoreRow at = scores.row(i);
    const std::int64_t first = scores.starts == nullptr ? 0 : scores.starts[at.sample * scores.starts_stride + at.query];
    float* const row = scores.weights + i * scores.rows;
    float largest = unseen, sum = 0;
    for (std::int64_t j = lane; j < scores.rows; j += lanes) {
      const float score = row[j] * scores.scale;
      if (scores.mask != nullptr) {
        row[j] = score + scores.mask[at.query * scores.rows + j];
      } else {
        row[j] = j >= first && j <= at.query ? score : unseen;
      }
      largest = max_of(largest, row[j]);
    }
    largest = lane_largest(largest);
    for (std::int64_t j = lane; j < scores.rows; j += lanes) {
      row[j] = exponential(row[j] - largest);
      sum += row[j];
    }
    sum = lane_sum(sum);
    for (std::int64_t j = lane; j < scores.rows; j += lanes) row[j] /= sum;
  }
};

/// aside = `from`, weights or aside itself, dropped.
struct Drop {
  Scores scores;
  const float* from;
  __device__ void operator()(std::int64_t i, std::int64_t j) const {
    scores.aside[i * scores.rows + j] = from[i * scores.rows + j] * scores.factor(scores.row(i), j);
  }
};

/// aside = weights * (aside - delta) * scale: the gradient of scores from that of weights.
struct ScoreSlope {
  Scores scores;
  const float* delta;
  __device__ void operator()(std::int64_t i, std::int64_t j) const {
    const std::int64_t at = i * scores.rows + j;
    scores.aside[at] = scores.weights[at] * (scores.aside[at] - delta[i]) * scores.scale;
  }
};

Scores scores_of(const WholeWeights& whole, const AttentionShape& shape, const DropoutSite& dropout, const Tensor& starts) {
  return {.weights = data_of<float>(whole.weights),
          .aside = data_of<float>(whole.aside),
          .heads = shape.heads,
          .rows = shape.queries,
          .scale = static_cast<float>(shape.score_scale()),
          .mask = data_of<const float>(whole.mask),
          .starts = data_of<const std::int32_t>(starts),
          .starts_stride = starts ? starts.stride() : 0,
          .drops = mask_of(dropout),
          .first_sample = dropout.first_sample,
          .first_index = dropout.first_index,
          .index_stride = dropout.index_stride};
}

/// The part of `matrix` that a head of a sample has.
Tensor head_of(const Tensor& matrix, const AttentionShape& shape, std::int64_t sample, std::int64_t head) {
  return matrix.slice_rows(sample * shape.queries, shape.queries).slice_columns(head * shape.head_size, shape.head_size);
}

/// The scores of a head, which `all` has for all heads.
Tensor scores_of_head(const Tensor& all, const AttentionShape& shape, std::int64_t sample, std::int64_t head) {
  const std::int64_t count = shape.queries * shape.keys;
  return all.reshape({all.elements()}).flat((sample * shape.heads + head) * count, count).reshape({shape.queries, shape.keys});
}

/// c (+)= a b; the operands are given with how they lie.
void product(const Context& context, const Tensor& c, const Operand& a, const Operand& b, std::int64_t k, bool add = false) {
  multiply(context, {.m = c.rows(),
                     .n = c.columns(),
                     .k = k,
                     .a = a,
                     .b = b,
                     .finish = {.y = stored_rows(c)},
                     .onto = add ? rows_of<const float>(c) : Rows<const float>{}});
}

/// body(sample, head) for every head of every sample.
template <class Body>
void for_heads(const AttentionShape& shape, const Body& body) {
  for (std::int64_t sample = 0; sample < shape.samples; ++sample)
    for (std::int64_t head = 0; head < shape.heads; ++head) body(sample, head);
}

}  // namespace

void whole_attention_forward(const Context& context, const AttentionForward& call) {
  const AttentionShape& shape = call.shape;
  const std::int64_t rows = shape.queries, all_rows = shape.samples * shape.heads * rows;
  if (rows == 0) return;
  if (call.whole.mask) for_matrix(context, rows, rows, StoreMask{data_of<float>(call.whole.mask), rows});
  for_heads(shape, [&](std::int64_t sample, std::int64_t head) {
    product(context, scores_of_head(call.whole.weights, shape, sample, head), Operand::rows(head_of(call.q, shape, sample, head)),
            Operand::rows(head_of(call.k, shape, sample, shape.kv_head_of(head))), shape.head_size);
  });
  const Scores scores = scores_of(call.whole, shape, call.dropout, call.starts);
  for_rows(context, all_rows, Softmax{scores});
  const bool drops = call.dropout.p > 0;
  if (drops) for_matrix(context, all_rows, rows, Drop{scores, scores.weights});
  for_heads(shape, [&](std::int64_t sample, std::int64_t head) {
    const Tensor weights = scores_of_head(drops ? call.whole.aside : call.whole.weights, shape, sample, head);
    product(context, head_of(call.o, shape, sample, head), Operand::rows(weights),
            Operand::columns(head_of(call.v, shape, sample, shape.kv_head_of(head))), rows);
  });
}

void whole_attention_backward(const Context& context, const AttentionBackward& call) {
  const AttentionShape& shape = call.shape;
  const std::int64_t rows = shape.queries, all_rows = shape.samples * shape.heads * rows;
  const Scores scores = scores_of(call.whole, shape, call.dropout, call.starts);
  const bool drops = call.dropout.p > 0;
  const auto aside = [&](std::int64_t sample, std::int64_t head) {
    return scores_of_head(call.whole.aside, shape, sample, head);
  };
  const auto shared_head = [&](const Tensor& matrix, std::int64_t sample, std::int64_t head) {
    return head_of(matrix, shape, sample, shape.kv_head_of(head));
  };
  const auto goes_on = [&](std::int64_t head) { return head > shape.first_head_of(shape.kv_head_of(head)); };
  for_heads(shape, [&](std::int64_t sample, std::int64_t head) {
    product(context, aside(sample, head), Operand::rows(head_of(call.d_o, shape, sample, head)),
            Operand::rows(shared_head(call.v, sample, head)), shape.head_size);
  });
  if (drops) for_matrix(context, all_rows, rows, Drop{scores, scores.aside});
  for_matrix(context, all_rows, rows, ScoreSlope{scores, data_of<const float>(call.delta)});
  for_heads(shape, [&](std::int64_t sample, std::int64_t head) {
    const Tensor d_scores = aside(sample, head);
    product(context, head_of(call.dq, shape, sample, head), Operand::rows(d_scores),
            Operand::columns(shared_head(call.k, sample, head)), rows);
    product(context, shared_head(call.dk, sample, head), Operand::columns(d_scores),
            Operand::columns(head_of(call.q, shape, sample, head)), rows, goes_on(head));
  });
  if (drops) for_matrix(context, all_rows, rows, Drop{scores, scores.weights});
  for_heads(shape, [&](std::int64_t sample, std::int64_t head) {
    const Tensor weights = drops ? aside(sample, head) : scores_of_head(call.whole.weights, shape, sample, head);
    product(context, shared_head(call.dv, sample, head), Operand::columns(weights),
            Operand::columns(head_of(call.d_o, shape, sample, head)), rows, goes_on(head));
  });
}

}  // namespace lockstep::ops::cuda
