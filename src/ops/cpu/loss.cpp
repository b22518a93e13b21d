// Softmax cross-entropy over rows that stay in cache: the maximum, the exponentials and their sum, the gradient.

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/cpu/loss.cpp"
#include <hwy/foreach_target.h>
// clang-format off
#include <hwy/highway.h>
// clang-format on

#include <cmath>
#include <cstring>
#include <limits>

#include "ops/cpu/context.h"
#include "ops/cpu/isa.h"
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

/// Rows [first, last): their losses, and in place their gradients when `scale` is not null.
void LossRows(const Tensor& logits, const Tensor& targets, std::int64_t vocabulary, const float* scale, double* losses,
              std::int64_t first, std::int64_t last) {
  const auto columns = static_cast<std::size_t>(logits.columns());
  for (std::int64_t i = first; i < last; ++i) {
    float* row = row_of(logits, i);
    const std::int32_t target = ids(targets)[i];
    if (target < 0) {
      losses[i] = 0;
      if (scale != nullptr) std::memset(row, 0, columns * sizeof(float));
      continue;
    }
    const double logit = row[target];
    const float largest = LargestOfRow(row, vocabulary);
    const double sum = SumOfExponentials(row, vocabulary, largest, scale != nullptr);
    losses[i] = std::log(sum) + (largest - logit);
    if (scale == nullptr) continue;
    const Sixteen factor = Splat(static_cast<float>(*scale / sum));
    ForColumns(vocabulary, [&](std::int64_t j, auto group) HWY_ATTR { group.Store(Mul(group.Load(row + j), factor), row + j); });
    row[target] -= *scale;
    std::memset(row + vocabulary, 0, (columns - static_cast<std::size_t>(vocabulary)) * sizeof(float));
  }
}

}  // namespace lockstep::ops::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lockstep::ops::cpu {
namespace {

HWY_EXPORT(LossRows);

constexpr std::int64_t block_rows = 64;

class CpuLoss final : public Loss {
 public:
  explicit CpuLoss(const Context& context) : Loss(context.observer), context_(context) {
    const ScopedIsa scope(context.isa);
    rows_ = &HWY_DYNAMIC_DISPATCH(LossRows);
  }

 private:
  // The losses of the rows wait in the workspace and are added in order, however the rows were dealt out.
  void do_forward(const Tensor& logits, const Tensor& targets, std::int64_t vocabulary, const Tensor& scale,
                  const Tensor& loss_sum) override {
    const std::span<double> losses = context_.scratch<double>();
    const std::int64_t per_round = static_cast<std::int64_t>(losses.size()) / block_rows * block_rows;
    const std::int64_t rows_a_tile = std::max<std::int64_t>(1, rows_per_tile(logits.columns()) / 4);
    for (std::int64_t begin = 0; begin < logits.rows(); begin += per_round) {
      const std::int64_t count = std::min(per_round, logits.rows() - begin);
      context_.deal(count, rows_a_tile, [&](std::int64_t first, std::int64_t last) {
        rows_(logits, targets, vocabulary, floats(scale), losses.data() - begin, begin + first, begin + last);
      });
      for (std::int64_t block = 0; block < count; block += block_rows) {
        double sum = 0;
        for (std::int64_t i = block; i < std::min(block + block_rows, count); ++i) sum += losses[static_cast<std::size_t>(i)];
        *data_of<double>(loss_sum) += sum;
      }
    }
  }

  Context context_;
  decltype(&HWY_STATIC_DISPATCH(LossRows)) rows_;
};

}  // namespace

std::unique_ptr<Loss> make_loss(const Context& context) { return std::make_unique<CpuLoss>(context); }

}  // namespace lockstep::ops::cpu
#endif
