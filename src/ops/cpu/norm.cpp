// Layer and RMS normalisation, a block of 64 rows a tile: a row is read once from memory and stays in cache for its passes.

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/cpu/norm.cpp"
#include <hwy/foreach_target.h>
// clang-format off
#include <hwy/highway.h>
#include <hwy/cache_control.h>
// clang-format on

#include <cmath>

#include "ops/check.h"
#include "ops/cpu/context.h"
#include "ops/cpu/isa.h"
#include "ops/cpu/row_calls.h"
#include "ops/cpu/simd/lanes-inl.h"
#include "ops/cpu/simd/norm-inl.h"

HWY_BEFORE_NAMESPACE();
namespace lockstep::ops::cpu::HWY_NAMESPACE {

/// One row of n from x, its mean and rstd.
template <class S>
HWY_INLINE void NormRow(const NormTensors& t, std::int64_t i, float mean, float rstd) {
  S* n = row_of<S>(t.n, i);
  const S* x = row_of<S>(t.x, i);
  const S *gain = data_of<S>(t.gain), *bias = data_of<S>(t.bias), *rest = row_of<S>(t.residual, i);
  const Sixteen means = Splat(mean), rstds = Splat(rstd);
  ForColumns(t.x.columns(), [&](std::int64_t j, auto group) HWY_ATTR {
    const Sixteen unit = Mul(Sub(group.Load(x + j), means), rstds);
    const Sixteen offset = bias != nullptr ? group.Load(bias + j) : Splat(0);
    const Sixteen normed = MulAdd(unit, NormGains(group, gain + j, t.form), offset);
    group.Store(rest != nullptr ? Add(normed, group.Load(rest + j)) : normed, n + j);
  });
}

template <class S>
HWY_FLATTEN void NormApplyAs(const NormTensors& t, std::int64_t first, std::int64_t last) {
  for (std::int64_t i = first; i < last; ++i) {
    const float* stat = floats(t.stats) + 2 * i;
    NormRow<S>(t, i, stat[0], stat[1]);
  }
}

void NormApply(const NormTensors& t, std::int64_t first, std::int64_t last) {
  WithStorage(t.x.dtype, [&](auto zero) HWY_ATTR { NormApplyAs<decltype(zero)>(t, first, last); });
}

template <class S>
HWY_FLATTEN void NormForwardAs(const NormTensors& t, float eps, std::int64_t first, std::int64_t last) {
  const std::int64_t columns = t.x.columns();
  const auto count = static_cast<float>(columns);
  for (std::int64_t i = first; i < last; ++i) {
    const S* from = row_of<S>(t.x, i);
    Sixteen sum = Splat(0), squares = Splat(0);
    if (t.form == NormForm::layer)
      ForColumns(columns, [&](std::int64_t j, auto group) HWY_ATTR { sum = Add(sum, group.Load(from + j)); });
    const float mean = Sum(sum) / count;
    const Sixteen means = Splat(mean);
    ForColumns(columns, [&](std::int64_t j, auto group) HWY_ATTR {
      const Sixteen difference = group.Keep(Sub(group.Load(from + j), means));
      squares = MulAdd(difference, difference, squares);
    });
    const float rstd = 1 / std::sqrt(Sum(squares) / count + eps);
    float* stat = floats(t.stats) + 2 * i;
    stat[0] = mean;
    stat[1] = rstd;
    NormRow<S>(t, i, mean, rstd);
  }
}

void NormForward(const NormTensors& t, float eps, std::int64_t first, std::int64_t last) {
  WithStorage(t.x.dtype, [&](auto zero) HWY_ATTR { NormForwardAs<decltype(zero)>(t, eps, first, last); });
}

/// Rows [first, last), at most a block of 64: dx (and n), and the block's `sums` of d_gain and, behind them, d_bias [columns].
/// `stream`: dx goes past the caches.
template <class S>
HWY_FLATTEN void NormBackwardAs(const NormBackward& call, float* sums, NormForm form, bool stream, std::int64_t first,
                                std::int64_t last) {
  const bool centred = form == NormForm::layer;
  const std::int64_t columns = call.x.columns();
  const auto count = static_cast<float>(columns);
  float *d_gain = sums, *d_bias = sums + columns;
  const S *gain = data_of<S>(call.gain), *bias = data_of<S>(call.bias);
  std::memset(d_gain, 0, static_cast<std::size_t>(columns) * sizeof(float));
  std::memset(d_bias, 0, static_cast<std::size_t>(columns) * sizeof(float));
  for (std::int64_t i = first; i < last; ++i) {
    const S* from = row_of<S>(call.x, i);
    const S* d_from = row_of<S>(call.dn, i);
    const float* stat = floats(call.stats) + 2 * i;
    const Sixteen mean = Splat(stat[0]), rstd = Splat(stat[1]);
    Sixteen sum = Splat(0), dot = Splat(0);
    ForColumns(columns, [&](std::int64_t j, auto group) HWY_ATTR {
      const Sixteen unit = Mul(Sub(group.Load(from + j), mean), rstd);
      const Sixteen d_n = group.Load(d_from + j);
      const Sixteen d_unit = Mul(d_n, NormGains(group, gain + j, form));
      sum = Add(sum, d_unit);
      dot = MulAdd(d_unit, unit, dot);
      group.Store(MulAdd(d_n, unit, group.Load(d_gain + j)), d_gain + j);
      group.Store(Add(d_n, group.Load(d_bias + j)), d_bias + j);
    });
    const Sixteen mean_sum = Splat(centred ? Sum(sum) / count : 0), mean_dot = Splat(Sum(dot) / count);
    const S* rest = row_of<S>(call.residual, i);
    S* to = row_of<S>(call.dx, i);
    S* again = row_of<S>(call.n, i);
    ForColumns(columns, [&](std::int64_t j, auto group) HWY_ATTR {
      const Sixteen unit = Mul(Sub(group.Load(from + j), mean), rstd);
      const Sixteen gains = NormGains(group, gain + j, form);
      const Sixteen d_unit = Mul(group.Load(d_from + j), gains);
      const Sixteen d_x = NegMulAdd(unit, mean_dot, Sub(d_unit, mean_sum));
      group.Store(MulAdd(d_x, rstd, rest != nullptr ? group.Load(rest + j) : Splat(0)), to + j, stream);
      if (again != nullptr) group.Store(MulAdd(unit, gains, bias != nullptr ? group.Load(bias + j) : Splat(0)), again + j);
    });
  }
  if (stream) hwy::FlushStream();
}

void NormBackwardRows(const NormBackward& call, float* sums, NormForm form, bool stream, std::int64_t first, std::int64_t last) {
  WithStorage(call.x.dtype, [&](auto zero) HWY_ATTR { NormBackwardAs<decltype(zero)>(call, sums, form, stream, first, last); });
}

/// `columns` columns of `sum` (+)= the blocks' partial sums in order; a block's lie `stride` after the one before.
void AddBlocks(float* sum, const float* partial, std::int64_t blocks, std::int64_t stride, bool accumulate,
               std::int64_t columns) {
  ForColumns(columns, [&](std::int64_t j, auto group) HWY_ATTR {
    Sixteen total = accumulate ? group.Load(sum + j) : Splat(0);
    for (std::int64_t b = 0; b < blocks; ++b) total = Add(total, group.Load(partial + b * stride + j));
    group.Store(total, sum + j);
  });
}

}  // namespace lockstep::ops::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lockstep::ops::cpu {
namespace {

HWY_EXPORT(NormApply);
HWY_EXPORT(NormForward);
HWY_EXPORT(NormBackwardRows);
HWY_EXPORT(AddBlocks);

constexpr std::int64_t block_rows = 64;
constexpr std::int64_t stripe = 512;  // columns that one worker combines

class CpuNorm final : public Norm {
 public:
  CpuNorm(const Context& context, NormForm form) : Norm(context.observer), context_(context), form_(form) {
    const ScopedIsa scope(context.isa);
    apply_ = &HWY_DYNAMIC_DISPATCH(NormApply);
    forward_ = &HWY_DYNAMIC_DISPATCH(NormForward);
    backward_ = &HWY_DYNAMIC_DISPATCH(NormBackwardRows);
    add_blocks_ = &HWY_DYNAMIC_DISPATCH(AddBlocks);
  }

 private:
  void do_forward(const Tensor& n, const Tensor& stats, const Tensor& x, const Tensor& gain, const Tensor& bias, float eps,
                  const Tensor& residual) override {
    context_.deal(x.rows(), rows_per_tile(x.columns()), [&](std::int64_t first, std::int64_t last) {
      forward_({n, stats, x, gain, bias, residual, form_}, eps, first, last);
    });
  }

  void do_apply(const Tensor& n, const Tensor& stats, const Tensor& x, const Tensor& gain, const Tensor& bias) override {
    context_.deal(x.rows(), rows_per_tile(x.columns()), [&](std::int64_t first, std::int64_t last) {
      apply_({n, stats, x, gain, bias, Tensor{}, form_}, first, last);
    });
  }

  // The blocks' sums fit the workspace: as many rows at a time as it holds, each time added onto the result.
  void do_backward(const NormBackward& call) override {
    const std::span<float> partial = context_.scratch<float>();
    const std::int64_t rows = call.x.rows(), columns = call.x.columns();
    const std::int64_t per_round = static_cast<std::int64_t>(partial.size()) / (2 * columns);
    demand(per_round > 0, "x", "two rows of it fit the workspace");
    const bool stream = stored_past_caches(context_.team, call.dx);
    bool add = call.accumulate;
    std::int64_t row = 0;
    do {
      const std::int64_t count = std::min(rows - row, per_round * block_rows);
      const std::int64_t blocks = div_up(count, block_rows);
      context_.deal(count, block_rows, [&](std::int64_t first, std::int64_t last) {
        float* sums = partial.data() + first / block_rows * 2 * columns;
        backward_(call, sums, form_, stream, row + first, row + last);
      });
      const std::int64_t summed = call.d_gain ? columns : 0;
      context_.deal(summed, stripe, [&](std::int64_t first, std::int64_t last) {
        const auto add_columns = [&](const Tensor& to, const float* from) {
          add_blocks_(floats(to) + first, from + first, blocks, 2 * columns, add, last - first);
        };
        add_columns(call.d_gain, partial.data());
        if (call.d_bias) add_columns(call.d_bias, partial.data() + columns);
      });
      add = true;
      row += count;
    } while (row < rows);
  }

  Context context_;
  NormForm form_;
  decltype(&HWY_STATIC_DISPATCH(NormApply)) apply_;
  decltype(&HWY_STATIC_DISPATCH(NormForward)) forward_;
  decltype(&HWY_STATIC_DISPATCH(NormBackwardRows)) backward_;
  decltype(&HWY_STATIC_DISPATCH(AddBlocks)) add_blocks_;
};

}  // namespace

std::unique_ptr<Norm> make_norm(const Context& context, NormForm form) { return std::make_unique<CpuNorm>(context, form); }

}  // namespace lockstep::ops::cpu
#endif
