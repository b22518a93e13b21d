// Layer and RMS normalisation, a block of 64 rows a tile: a row is read once from memory and stays in cache for its passes.

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/cpu/norm.cpp"
#include <hwy/foreach_target.h>
// clang-format off
#include <hwy/highway.h>
// clang-format on

#include <cmath>

#include "ops/check.h"
#include "ops/cpu/context.h"
#include "ops/cpu/isa.h"
#include "ops/cpu/simd/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace lockstep::ops::cpu::HWY_NAMESPACE {

/// One row of n from x, its mean and rstd.
template <class S>
HWY_INLINE void NormRow(S* n, const S* x, const S* gain, const S* bias, std::int64_t columns, float mean, float rstd) {
  const Sixteen means = Splat(mean), rstds = Splat(rstd);
  ForColumns(columns, [&](std::int64_t j, auto group) HWY_ATTR {
    const Sixteen unit = Mul(Sub(group.Load(x + j), means), rstds);
    const Sixteen offset = bias != nullptr ? group.Load(bias + j) : Splat(0);
    group.Store(MulAdd(unit, group.Load(gain + j), offset), n + j);
  });
}

template <class S>
HWY_FLATTEN void NormApplyAs(const Tensor& n, const Tensor& stats, const Tensor& x, const S* gain, const S* bias,
                             std::int64_t first, std::int64_t last) {
  for (std::int64_t i = first; i < last; ++i) {
    const float* stat = floats(stats) + 2 * i;
    NormRow(row_of<S>(n, i), row_of<S>(x, i), gain, bias, x.columns(), stat[0], stat[1]);
  }
}

void NormApply(const Tensor& n, const Tensor& stats, const Tensor& x, const Tensor& gain, const Tensor& bias, std::int64_t first,
               std::int64_t last) {
  WithStorage(x.dtype, [&](auto zero) HWY_ATTR {
    using S = decltype(zero);
    NormApplyAs(n, stats, x, data_of<S>(gain), data_of<S>(bias), first, last);
  });
}

template <class S>
HWY_FLATTEN void NormForwardAs(const Tensor& n, const Tensor& stats, const Tensor& x, const S* gain, const S* bias, float eps,
                               bool centred, std::int64_t first, std::int64_t last) {
  const std::int64_t columns = x.columns();
  const auto count = static_cast<float>(columns);
  for (std::int64_t i = first; i < last; ++i) {
    const S* from = row_of<S>(x, i);
    Sixteen sum = Splat(0), squares = Splat(0);
    if (centred) ForColumns(columns, [&](std::int64_t j, auto group) HWY_ATTR { sum = Add(sum, group.Load(from + j)); });
    const float mean = Sum(sum) / count;
    const Sixteen means = Splat(mean);
    ForColumns(columns, [&](std::int64_t j, auto group) HWY_ATTR {
      const Sixteen difference = group.Keep(Sub(group.Load(from + j), means));
      squares = MulAdd(difference, difference, squares);
    });
    const float rstd = 1 / std::sqrt(Sum(squares) / count + eps);
    float* stat = floats(stats) + 2 * i;
    stat[0] = mean;
    stat[1] = rstd;
    NormRow(row_of<S>(n, i), from, gain, bias, columns, mean, rstd);
  }
}

void NormForward(const Tensor& n, const Tensor& stats, const Tensor& x, const Tensor& gain, const Tensor& bias, float eps,
                 bool centred, std::int64_t first, std::int64_t last) {
  WithStorage(x.dtype, [&](auto zero) HWY_ATTR {
    using S = decltype(zero);
    NormForwardAs(n, stats, x, data_of<S>(gain), data_of<S>(bias), eps, centred, first, last);
  });
}

/// Rows [first, last), at most a block of 64: dx (and n), and the block's sums d_gain and d_bias [columns].
template <class S>
HWY_FLATTEN void NormBackwardAs(const Tensor& dx, const Tensor& n, float* d_gain, float* d_bias, const Tensor& dn,
                                const Tensor& x, const Tensor& stats, const S* gain, const S* bias, const Tensor& residual,
                                bool centred, std::int64_t first, std::int64_t last) {
  const std::int64_t columns = x.columns();
  const auto count = static_cast<float>(columns);
  std::memset(d_gain, 0, static_cast<std::size_t>(columns) * sizeof(float));
  std::memset(d_bias, 0, static_cast<std::size_t>(columns) * sizeof(float));
  for (std::int64_t i = first; i < last; ++i) {
    const S* from = row_of<S>(x, i);
    const S* d_from = row_of<S>(dn, i);
    const float* stat = floats(stats) + 2 * i;
    const Sixteen mean = Splat(stat[0]), rstd = Splat(stat[1]);
    Sixteen sum = Splat(0), dot = Splat(0);
    ForColumns(columns, [&](std::int64_t j, auto group) HWY_ATTR {
      const Sixteen unit = Mul(Sub(group.Load(from + j), mean), rstd);
      const Sixteen d_n = group.Load(d_from + j);
      const Sixteen d_unit = Mul(d_n, group.Load(gain + j));
      sum = Add(sum, d_unit);
      dot = MulAdd(d_unit, unit, dot);
      group.Store(MulAdd(d_n, unit, group.Load(d_gain + j)), d_gain + j);
      group.Store(Add(d_n, group.Load(d_bias + j)), d_bias + j);
    });
    const Sixteen mean_sum = Splat(centred ? Sum(sum) / count : 0), mean_dot = Splat(Sum(dot) / count);
    const S* rest = row_of<S>(residual, i);
    S* to = row_of<S>(dx, i);
    S* again = row_of<S>(n, i);
    ForColumns(columns, [&](std::int64_t j, auto group) HWY_ATTR {
      const Sixteen unit = Mul(Sub(group.Load(from + j), mean), rstd);
      const Sixteen gains = group.Load(gain + j);
      const Sixteen d_unit = Mul(group.Load(d_from + j), gains);
      const Sixteen d_x = NegMulAdd(unit, mean_dot, Sub(d_unit, mean_sum));
      group.Store(MulAdd(d_x, rstd, rest != nullptr ? group.Load(rest + j) : Splat(0)), to + j);
      if (again != nullptr) group.Store(MulAdd(unit, gains, bias != nullptr ? group.Load(bias + j) : Splat(0)), again + j);
    });
  }
}

void NormBackward(const Tensor& dx, const Tensor& n, float* d_gain, float* d_bias, const Tensor& dn, const Tensor& x,
                  const Tensor& stats, const Tensor& gain, const Tensor& bias, const Tensor& residual, bool centred,
                  std::int64_t first, std::int64_t last) {
  WithStorage(x.dtype, [&](auto zero) HWY_ATTR {
    using S = decltype(zero);
    NormBackwardAs(dx, n, d_gain, d_bias, dn, x, stats, data_of<S>(gain), data_of<S>(bias), residual, centred, first, last);
  });
}

/// Columns [first, last) of `sum` (+)= the blocks' partial sums in order; a block's lie `stride` after the one before.
void AddBlocks(float* sum, const float* partial, std::int64_t blocks, std::int64_t stride, bool accumulate, std::int64_t first,
               std::int64_t last) {
  ForColumns(last - first, [&](std::int64_t j, auto group) HWY_ATTR {
    Sixteen total = accumulate ? group.Load(sum + first + j) : Splat(0);
    for (std::int64_t b = 0; b < blocks; ++b) total = Add(total, group.Load(partial + b * stride + first + j));
    group.Store(total, sum + first + j);
  });
}

}  // namespace lockstep::ops::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lockstep::ops::cpu {
namespace {

HWY_EXPORT(NormApply);
HWY_EXPORT(NormForward);
HWY_EXPORT(NormBackward);
HWY_EXPORT(AddBlocks);

constexpr std::int64_t block_rows = 64;
constexpr std::int64_t stripe = 512;  // columns that one worker combines

class CpuNorm final : public Norm {
 public:
  CpuNorm(const Context& context, bool centred) : Norm(context.observer), context_(context), centred_(centred) {
    const ScopedIsa scope(context.isa);
    apply_ = &HWY_DYNAMIC_DISPATCH(NormApply);
    forward_ = &HWY_DYNAMIC_DISPATCH(NormForward);
    backward_ = &HWY_DYNAMIC_DISPATCH(NormBackward);
    add_blocks_ = &HWY_DYNAMIC_DISPATCH(AddBlocks);
  }

 private:
  void do_forward(const Tensor& n, const Tensor& stats, const Tensor& x, const Tensor& gain, const Tensor& bias,
                  float eps) override {
    context_.deal(x.rows(), rows_per_tile(x.columns()),
                  [&](std::int64_t first, std::int64_t last) { forward_(n, stats, x, gain, bias, eps, centred_, first, last); });
  }

  void do_apply(const Tensor& n, const Tensor& stats, const Tensor& x, const Tensor& gain, const Tensor& bias) override {
    context_.deal(x.rows(), rows_per_tile(x.columns()),
                  [&](std::int64_t first, std::int64_t last) { apply_(n, stats, x, gain, bias, first, last); });
  }

  // The blocks' sums fit the workspace: as many rows at a time as it holds, each time added onto the result.
  void do_backward(const Tensor& dx, const Tensor& n, const Tensor& d_gain, const Tensor& d_bias, const Tensor& dn,
                   const Tensor& x, const Tensor& stats, const Tensor& gain, const Tensor& bias, const Tensor& residual,
                   bool accumulate) override {
    const std::span<float> partial = context_.scratch<float>();
    const std::int64_t columns = x.columns();
    const std::int64_t per_round = static_cast<std::int64_t>(partial.size()) / (2 * columns);
    demand(per_round > 0, "x", "two rows of it fit the workspace");
    bool add = accumulate;
    std::int64_t row = 0;
    do {
      const std::int64_t count = std::min(x.rows() - row, per_round * block_rows);
      const std::int64_t blocks = div_up(count, block_rows);
      context_.deal(count, block_rows, [&](std::int64_t first, std::int64_t last) {
        float* sums = partial.data() + first / block_rows * 2 * columns;
        backward_(dx, n, sums, sums + columns, dn, x, stats, gain, bias, residual, centred_, row + first, row + last);
      });
      context_.deal(columns, stripe, [&](std::int64_t first, std::int64_t last) {
        add_blocks_(floats(d_gain), partial.data(), blocks, 2 * columns, add, first, last);
        if (d_bias) add_blocks_(floats(d_bias), partial.data() + columns, blocks, 2 * columns, add, first, last);
      });
      add = true;
      row += count;
    } while (row < x.rows());
  }

  Context context_;
  bool centred_;
  decltype(&HWY_STATIC_DISPATCH(NormApply)) apply_;
  decltype(&HWY_STATIC_DISPATCH(NormForward)) forward_;
  decltype(&HWY_STATIC_DISPATCH(NormBackward)) backward_;
  decltype(&HWY_STATIC_DISPATCH(AddBlocks)) add_blocks_;
};

}  // namespace

std::unique_ptr<Norm> make_norm(const Context& context, bool centred) { return std::make_unique<CpuNorm>(context, centred); }

}  // namespace lockstep::ops::cpu
#endif
