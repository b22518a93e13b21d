#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/cpu/attention/materialised.cpp"
#include <hwy/foreach_target.h>
// clang-format off
#include <hwy/highway.h>
// clang-format on

#include <algorithm>
#include <cmath>
#include <limits>

#include "ops/cpu/attention/materialised.h"
#include "ops/cpu/isa.h"
// clang-format off: lanes-inl.h comes first
#include "ops/cpu/simd/lanes-inl.h"
#include "ops/cpu/simd/philox-inl.h"
#include "ops/cpu/simd/vector_math-inl.h"
#include "ops/cpu/attention/dropout-inl.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace lockstep::ops::cpu::HWY_NAMESPACE {

/// row[j] = f(j, group) for every row of a head's scores.
template <class Value>
HWY_INLINE void ForScores(const ScorePass& p, float* to, const Value& value) {
  for (std::int64_t i = 0; i < p.rows; ++i) {
    const std::int64_t row = i * p.keys;
    ForColumns(p.keys, [&](std::int64_t j, auto group) HWY_ATTR { group.Store(value(i, row + j, group), to + row + j); });
  }
}

/// Keys [first, last) that query i sees.
struct SeenKeys {
  std::int64_t first, last;
};
HWY_INLINE SeenKeys SeenBy(const ScorePass& p, std::int64_t i) { return {p.starts == nullptr ? 0 : p.starts[i], i + 1}; }

HWY_FLATTEN void ScaleScores(const ScorePass& p) {
  const Sixteen scale = Splat(p.scale);
  ForScores(p, p.weights,
            [&](std::int64_t, std::int64_t j, auto group) HWY_ATTR { return Mul(group.Load(p.weights + j), scale); });
}

void StoreScoreMask(const ScorePass& p) {
  for (std::int64_t i = 0; i < p.rows; ++i) {
    float* row = p.mask + i * p.keys;
    std::fill(row, row + i + 1, 0.0F);
    std::fill(row + i + 1, row + p.keys, -std::numeric_limits<float>::infinity());
  }
}

HWY_FLATTEN void AddScoreMask(const ScorePass& p) {
  ForScores(p, p.weights, [&](std::int64_t, std::int64_t j, auto group) HWY_ATTR {
    return Add(group.Load(p.weights + j), group.Load(p.mask + j));
  });
}

void HideScores(const ScorePass& p) {
  for (std::int64_t i = 0; i < p.rows; ++i) {
    const SeenKeys seen = SeenBy(p, i);
    float* row = p.weights + i * p.keys;
    std::fill(row, row + seen.first, -std::numeric_limits<float>::infinity());
    std::fill(row + seen.last, row + p.keys, -std::numeric_limits<float>::infinity());
  }
}

/// Every query sees itself, so that the largest score is a number.
HWY_FLATTEN void ScoreSoftmax(const ScorePass& p) {
  for (std::int64_t i = 0; i < p.rows; ++i) {
    float* row = p.weights + i * p.keys;
    Sixteen most = Splat(-std::numeric_limits<float>::infinity()), sums = Splat(0);
    ForColumns(p.keys, [&](std::int64_t j, auto group)
                           HWY_ATTR { most = Max(most, group.LoadOr(row + j, -std::numeric_limits<float>::infinity())); });
    const Sixteen largest = Splat(Largest(most));
    ForColumns(p.keys, [&](std::int64_t j, auto group) HWY_ATTR {
      const Sixteen above = Sub(group.Load(row + j), largest);
      const Sixteen power = group.Keep(Map([](FloatVec x) HWY_ATTR { return Exp(floats_tag, x); }, above));
      sums = Add(sums, power);
      group.Store(power, row + j);
    });
    const Sixteen sum = Splat(Sum(sums));
    ForColumns(p.keys, [&](std::int64_t j, auto group) HWY_ATTR {
      group.Store(Map([](FloatVec x, FloatVec y) HWY_ATTR { return hn::Div(x, y); }, group.Load(row + j), sum), row + j);
    });
  }
}

/// to = from, dropped. Blocks of 64 keys, for each of which a mask is drawn.
HWY_INLINE void DropScores(const ScorePass& p, const float* from, float* to) {
  const MaskRow mask({p.dropout, p.sample, p.head});
  for (std::int64_t i = 0; i < p.rows; ++i) {
    for (std::int64_t block = 0; block < p.keys; block += key_block) {
      alignas(64) float factors[key_block];
      mask.draw(p.head, i, block, factors);
      const std::int64_t at = i * p.keys + block, count = std::min(key_block, p.keys - block);
      for (std::int64_t j = 0; j < count; ++j) to[at + j] = from[at + j] * factors[j];
    }
  }
}
void DropWeightsAside(const ScorePass& p) { DropScores(p, p.weights, p.aside); }
void DropAside(const ScorePass& p) { DropScores(p, p.aside, p.aside); }

/// aside = weights * (aside - delta) * scale: the gradient of scores from that of weights.
HWY_FLATTEN void ScoreSlope(const ScorePass& p) {
  const Sixteen scale = Splat(p.scale);
  ForScores(p, p.aside, [&](std::int64_t i, std::int64_t j, auto group) HWY_ATTR {
    const Sixteen change = Sub(group.Load(p.aside + j), Splat(p.delta[i]));
    return Mul(Mul(group.Load(p.weights + j), change), scale);
  });
}

ScoreKernels ScoreKernelsHere() {
  return {.scale = &ScaleScores,
          .store_mask = &StoreScoreMask,
          .add_mask = &AddScoreMask,
          .hide = &HideScores,
          .softmax = &ScoreSoftmax,
          .drop_weights = &DropWeightsAside,
          .drop_aside = &DropAside,
          .slope = &ScoreSlope};
}

}  // namespace lockstep::ops::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lockstep::ops::cpu {
namespace {

HWY_EXPORT(ScoreKernelsHere);

ScoreKernels score_kernels(Isa isa) {
  const ScopedIsa scope(isa);
  return HWY_DYNAMIC_DISPATCH(ScoreKernelsHere)();
}

float scale_of(const AttentionShape& shape) { return static_cast<float>(shape.score_scale()); }

/// Columns [column, ...) of rows [row, row + rows) of a matrix.
Tensor part_of(const Tensor& matrix, std::int64_t row, std::int64_t rows, std::int64_t column, std::int64_t columns) {
  return matrix.slice_rows(row, rows).slice_columns(column, columns);
}

/// Where forward and backward find one head's scores.
ScorePass pass_of(const WholeWeights& whole, const AttentionShape& shape, const DropoutSite& dropout, std::int64_t sample,
                  std::int64_t head) {
  const std::int64_t first = (sample * shape.heads + head) * shape.queries * shape.keys;
  return {.weights = floats(whole.weights) + first,
          .aside = floats(whole.aside) + first,
          .rows = shape.queries,
          .keys = shape.keys,
          .mask = whole.mask ? floats(whole.mask) : nullptr,
          .scale = scale_of(shape),
          .dropout = dropout.p > 0 ? &dropout : nullptr,
          .sample = sample,
          .head = head};
}

}  // namespace

struct MaterialisedAttention::Operand {
  const void* data;
  std::int64_t stride;
  DType type;
  bool transposed = false;
  static Operand of(const Tensor& t, bool transposed = false) { return {t.data, t.stride(), t.dtype, transposed}; }
};

struct MaterialisedAttention::Result {
  std::byte* data;
  std::int64_t rows, columns, stride;
  DType type = DType::f32;
  bool add = false;  ///< of f32
  static Result of(const Tensor& t, bool add = false) { return {t.data, t.rows(), t.columns(), t.stride(), t.dtype, add}; }
};

MaterialisedAttention::MaterialisedAttention(const Context& context, Product& products, PlainProducts* plain)
    : context_(context),
      products_(products),
      plain_(plain),
      store_(epilogue_kernels_for(context.isa)),
      scores_(score_kernels(context.isa)) {}

void MaterialisedAttention::multiply(const Operand& a, const Operand& b, const Result& c, std::int64_t inner, int worker) {
  ProductTask task{.m = c.rows,
                   .n = c.columns,
                   .k = inner,
                   .a = a.data,
                   .a_stride = a.stride,
                   .a_transposed = a.transposed,
                   .a_type = a.type,
                   .b = b.data,
                   .b_stride = b.stride,
                   .b_transposed = b.transposed,
                   .b_type = b.type,
                   .c = reinterpret_cast<float*>(c.data),
                   .c_stride = c.stride,
                   .accumulate = c.add};
  const ForwardContext context{{c.data, c.stride}, {}, {}, {}, {}};
  if (c.type != DType::f32) {
    task.finish = {.apply = store_.of(c.type).forward[static_cast<std::size_t>(Activation::none)],
                   .context = &context,
                   .operands = {context.y},
                   .type = c.type};
  }
  plain_ != nullptr ? plain_->run_alone(task, worker) : products_.run_alone(task, worker);
}

void MaterialisedAttention::forward(const AttentionForward& call) {
  const AttentionShape& shape = call.shape;
  if (shape.queries == 0) return;
  if (call.whole.mask) scores_.store_mask(pass_of(call.whole, shape, call.dropout, 0, 0));
  context_.team.for_each(shape.samples * shape.heads,
                         [&](std::int64_t task, int worker) { forward(call, task / shape.heads, task % shape.heads, worker); });
  context_.stream.progress();
}

void MaterialisedAttention::forward(const AttentionForward& call, std::int64_t sample, std::int64_t head, int worker) {
  const AttentionShape& shape = call.shape;
  const std::int64_t row = sample * shape.queries, column = head * shape.head_size;
  const std::int64_t kv_column = shape.kv_head_of(head) * shape.head_size;
  const auto head_of = [&](const Tensor& matrix, std::int64_t from) {
    return part_of(matrix, row, shape.queries, from, shape.head_size);
  };
  ScorePass pass = pass_of(call.whole, shape, call.dropout, sample, head);
  pass.starts = starts_from(call.starts, sample, 0);
  const Result scores{reinterpret_cast<std::byte*>(pass.weights), pass.rows, pass.keys, pass.keys};
  multiply(Operand::of(head_of(call.q, column)), Operand::of(head_of(call.k, kv_column), true), scores, shape.head_size, worker);
  scores_.scale(pass);
  pass.mask != nullptr ? scores_.add_mask(pass) : scores_.hide(pass);
  scores_.softmax(pass);
  if (pass.dropout != nullptr) scores_.drop_weights(pass);
  const Operand weights{pass.dropout != nullptr ? pass.aside : pass.weights, pass.keys, DType::f32};
  multiply(weights, Operand::of(head_of(call.v, kv_column)), Result::of(head_of(call.o, column)), pass.keys, worker);
}

void MaterialisedAttention::backward(const AttentionBackward& call) {
  const AttentionShape& shape = call.shape;
  context_.team.for_each(shape.samples * shape.kv_heads, [&](std::int64_t task, int worker) {
    backward(call, task / shape.kv_heads, task % shape.kv_heads, worker);
  });
  context_.stream.progress();
}

void MaterialisedAttention::backward(const AttentionBackward& call, std::int64_t sample, std::int64_t kv_head, int worker) {
  const AttentionShape& shape = call.shape;
  const std::int64_t row = sample * shape.queries, kv_column = kv_head * shape.head_size;
  const auto head_of = [&](const Tensor& matrix, std::int64_t from) {
    return part_of(matrix, row, shape.queries, from, shape.head_size);
  };
  const Tensor k = head_of(call.k, kv_column), v = head_of(call.v, kv_column);
  const std::int64_t first = shape.first_head_of(kv_head), last = shape.first_head_of(kv_head + 1);
  const Tensor dk = head_of(call.dk, kv_column), dv = head_of(call.dv, kv_column);
  for (std::int64_t head = first; head < last; ++head) {
    const std::int64_t column = head * shape.head_size;
    ScorePass pass = pass_of(call.whole, shape, call.dropout, sample, head);
    pass.delta = floats(call.delta) + (sample * shape.heads + head) * shape.queries;
    const Tensor d_o = head_of(call.d_o, column), q = head_of(call.q, column);
    const Operand scores{pass.aside, pass.keys, DType::f32}, across{pass.aside, pass.keys, DType::f32, true};
    const Result d_weights{reinterpret_cast<std::byte*>(pass.aside), pass.rows, pass.keys, pass.keys};
    multiply(Operand::of(d_o), Operand::of(v, true), d_weights, shape.head_size, worker);
    if (pass.dropout != nullptr) scores_.drop_aside(pass);
    scores_.slope(pass);
    multiply(scores, Operand::of(k), Result::of(head_of(call.dq, column)), pass.keys, worker);
    multiply(across, Operand::of(q), Result::of(dk, head > first), pass.rows, worker);
    if (pass.dropout != nullptr) scores_.drop_weights(pass);
    const Operand weights{pass.dropout != nullptr ? pass.aside : pass.weights, pass.keys, DType::f32, true};
    multiply(weights, Operand::of(d_o), Result::of(dv, head > first), pass.rows, worker);
  }
}

}  // namespace lockstep::ops::cpu
#endif
