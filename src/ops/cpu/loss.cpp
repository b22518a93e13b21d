// Softmax cross-entropy over rows that stay in cache: the maximum, the exponentials and their sum, the gradient. Where the
// vocabulary is divided, what one visit of a row does is done in two.

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/cpu/loss.cpp"
#include <hwy/foreach_target.h>
// clang-format off
#include <hwy/highway.h>
// clang-format on

#include <cstring>
#include <limits>

#include "base/math/elementary.h"
#include "ops/cpu/context.h"
#include "ops/cpu/isa.h"
#include "ops/cpu/row_calls.h"
#include "ops/cpu/simd/lanes-inl.h"
#include "ops/cpu/simd/vector_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace lockstep::ops::cpu::HWY_NAMESPACE {

HWY_INLINE float LargestOfRow(const float* row, std::int64_t columns) {
  constexpr float lowest = -std::numeric_limits<float>::infinity();
  Sixteen largest = Splat(lowest);
  ForColumns(columns, [&](std::int64_t j, auto group) HWY_ATTR { largest = Max(largest, group.LoadOr(row + j, lowest)); });
  return Largest(largest);
}

/// Sum of exp(row - shift), 1024 columns at a time in float lanes, those in double; `keep`: the row becomes exp(row - shift).
HWY_INLINE double SumOfExponentials(float* row, std::int64_t columns, float shift, bool keep) {
  const Sixteen shifts = Splat(shift);
  double total = 0;
  for (std::int64_t begin = 0; begin < columns; begin += 1024) {
    Sixteen sum = Splat(0);
    ForColumns(std::min<std::int64_t>(1024, columns - begin), [&](std::int64_t j, auto group) HWY_ATTR {
      const Sixteen x = Sub(group.LoadOr(row + begin + j, -std::numeric_limits<float>::infinity()), shifts);
      const Sixteen e = Map([](FloatVec v) HWY_ATTR { return Exp(floats_tag, v); }, x);
      sum = Add(sum, e);
      if (keep) group.Store(e, row + begin + j);
    });
    total += Sum(sum);
  }
  return total;
}

/// The first `tokens` columns of a row *= factor; those behind become zero.
HWY_INLINE void ScaleRow(float* row, std::int64_t tokens, std::int64_t columns, float factor) {
  const Sixteen factors = Splat(factor);
  ForColumns(tokens, [&](std::int64_t j, auto group) HWY_ATTR { group.Store(Mul(group.Load(row + j), factors), row + j); });
  std::memset(row + tokens, 0, static_cast<std::size_t>(columns - tokens) * sizeof(float));
}

/// Rows [first, last): their losses, and in place their gradients when `scale` is not null.
void LossRows(const Tensor& logits, const Tensor& targets, std::int64_t vocabulary, const float* scale, double* losses,
              std::int64_t first, std::int64_t last) {
  const std::int64_t columns = logits.columns();
  for (std::int64_t i = first; i < last; ++i) {
    float* row = row_of(logits, i);
    const std::int32_t target = ids(targets)[i];
    if (target < 0) {
      losses[i] = 0;
      if (scale != nullptr) ScaleRow(row, 0, columns, 0);
      continue;
    }
    const double logit = row[target];
    const float largest = LargestOfRow(row, vocabulary);
    const double sum = SumOfExponentials(row, vocabulary, largest, scale != nullptr);
    losses[i] = logarithm(sum) + (largest - logit);
    if (scale == nullptr) continue;
    ScaleRow(row, vocabulary, columns, static_cast<float>(*scale / sum));
    row[target] -= *scale;
  }
}

/// What a part of the vocabulary says of a row, as it lies in a summary's row.
struct RowSummary {
  double largest, sum, logit;
  static RowSummary Of(const double* summaries, std::int64_t row) {
    return {summaries[3 * row], summaries[3 * row + 1], summaries[3 * row + 2]};
  }
  void Put(double* summaries, std::int64_t row) const {
    summaries[3 * row] = largest;
    summaries[3 * row + 1] = sum;
    summaries[3 * row + 2] = logit;
  }
};

/// Rows [first, last) of a part's logits.
void SummariseRows(double* summaries, const PartLogits& part_logits, bool keep, std::int64_t first, std::int64_t last) {
  const auto& [logits, targets, part] = part_logits;
  for (std::int64_t i = first; i < last; ++i) {
    float* row = row_of(logits, i);
    const std::int64_t target = ids(targets)[i], column = target - part.first_token;
    RowSummary{}.Put(summaries, i);
    if (target < 0) continue;
    const bool here = column >= 0 && column < part.tokens;
    const double logit = here ? row[column] : 0;
    const float largest = LargestOfRow(row, part.tokens);
    RowSummary{largest, SumOfExponentials(row, part.tokens, largest, keep), logit}.Put(summaries, i);
  }
}

/// Rows [first, last): their losses by the summaries of all parts, and the gradient of this part's columns when `scale` is not
/// null.
void FinishRows(const PartLogits& part_logits, const PartSummaries& all, const float* scale, double* losses, std::int64_t first,
                std::int64_t last) {
  const auto& [logits, targets, part] = part_logits;
  const auto& [summaries, parts] = all;
  const std::int64_t rows = logits.rows(), columns = logits.columns();
  for (std::int64_t i = first; i < last; ++i) {
    float* row = row_of(logits, i);
    const std::int64_t target = ids(targets)[i], column = target - part.first_token;
    if (target < 0) {
      losses[i] = 0;
      if (scale != nullptr) ScaleRow(row, 0, columns, 0);
      continue;
    }
    const double own = RowSummary::Of(summaries, part.number * rows + i).largest;
    double largest = own, sum = 0, logit = 0;
    for (std::int64_t p = 0; p < parts; ++p) largest = std::max(largest, RowSummary::Of(summaries, p * rows + i).largest);
    for (std::int64_t p = 0; p < parts; ++p) {
      const RowSummary summary = RowSummary::Of(summaries, p * rows + i);
      sum += summary.sum * exponential(summary.largest - largest);
      logit += summary.logit;
    }
    losses[i] = logarithm(sum) + (largest - logit);
    if (scale == nullptr) continue;
    ScaleRow(row, part.tokens, columns, static_cast<float>(*scale * exponential(own - largest) / sum));
    if (column >= 0 && column < part.tokens) row[column] -= *scale;
  }
}

}  // namespace lockstep::ops::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lockstep::ops::cpu {
namespace {

HWY_EXPORT(LossRows);
HWY_EXPORT(SummariseRows);
HWY_EXPORT(FinishRows);

constexpr std::int64_t block_rows = 64;

class CpuLoss final : public Loss {
 public:
  explicit CpuLoss(const Context& context) : Loss(context.observer), context_(context) {
    const ScopedIsa scope(context.isa);
    rows_ = &HWY_DYNAMIC_DISPATCH(LossRows);
    summarise_ = &HWY_DYNAMIC_DISPATCH(SummariseRows);
    finish_ = &HWY_DYNAMIC_DISPATCH(FinishRows);
  }

 private:
  static std::int64_t rows_a_tile(const Tensor& logits) { return std::max<std::int64_t>(1, rows_per_tile(logits.columns()) / 4); }

  /// compute(losses, first, last) says the losses of rows [first, last). They wait in the workspace and are added in order,
  /// however the rows were dealt out.
  template <class Compute>
  void add_losses(const Tensor& logits, const Tensor& loss_sum, const Compute& compute) {
    const std::span<double> losses = context_.scratch<double>();
    const std::int64_t per_round = static_cast<std::int64_t>(losses.size()) / block_rows * block_rows;
    for (std::int64_t begin = 0; begin < logits.rows(); begin += per_round) {
      const std::int64_t count = std::min(per_round, logits.rows() - begin);
      context_.deal(count, rows_a_tile(logits),
                    [&](std::int64_t first, std::int64_t last) { compute(losses.data() - begin, begin + first, begin + last); });
      for (std::int64_t block = 0; block < count && loss_sum; block += block_rows) {
        double sum = 0;
        for (std::int64_t i = block; i < std::min(block + block_rows, count); ++i) sum += losses[static_cast<std::size_t>(i)];
        *data_of<double>(loss_sum) += sum;
      }
    }
  }

  void do_forward(const Tensor& logits, const Tensor& targets, std::int64_t vocabulary, const Tensor& scale,
                  const Tensor& loss_sum) override {
    add_losses(logits, loss_sum, [&](double* losses, std::int64_t first, std::int64_t last) {
      rows_(logits, targets, vocabulary, floats(scale), losses, first, last);
    });
  }

  void do_summarise(const Tensor& summary, const Tensor& logits, const Tensor& targets, const VocabularyPart& part,
                    bool keep_exponentials) override {
    context_.deal(logits.rows(), rows_a_tile(logits), [&](std::int64_t first, std::int64_t last) {
      summarise_(data_of<double>(summary), {logits, targets, part}, keep_exponentials, first, last);
    });
  }

  void do_finish(const Tensor& logits, const Tensor& targets, const VocabularyPart& part, const Tensor& summaries,
                 const Tensor& scale, const Tensor& loss_sum) override {
    const std::int64_t parts = logits.rows() > 0 ? summaries.elements() / (summary_columns * logits.rows()) : 0;
    add_losses(logits, loss_sum, [&](double* losses, std::int64_t first, std::int64_t last) {
      finish_({logits, targets, part}, {data_of<double>(summaries), parts}, floats(scale), losses, first, last);
    });
  }

  Context context_;
  decltype(&HWY_STATIC_DISPATCH(LossRows)) rows_;
  decltype(&HWY_STATIC_DISPATCH(SummariseRows)) summarise_;
  decltype(&HWY_STATIC_DISPATCH(FinishRows)) finish_;
};

}  // namespace

std::unique_ptr<Loss> make_loss(const Context& context) { return std::make_unique<CpuLoss>(context); }

}  // namespace lockstep::ops::cpu
#endif
