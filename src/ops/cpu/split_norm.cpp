// RMSNorm of rows whose features are summed in parts: each row is one pass over its features.

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/cpu/split_norm.cpp"
#include <hwy/foreach_target.h>
// clang-format off
#include <hwy/highway.h>
// clang-format on

#include <algorithm>
#include <cmath>

#include "ops/cpu/context.h"
#include "ops/cpu/isa.h"
#include "ops/cpu/row_calls.h"
#include "ops/cpu/simd/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace lockstep::ops::cpu::HWY_NAMESPACE {

HWY_FLATTEN void SplitNormSquares(const SplitNormTensors& t, std::int64_t first, std::int64_t last) {
  WithStorage(t.x.dtype, [&](auto zero) HWY_ATTR {
    for (std::int64_t i = first; i < last; ++i) {
      const auto* x = row_of<decltype(zero)>(t.x, i);
      Sixteen squares = Splat(0);
      ForColumns(t.x.columns(), [&](std::int64_t j, auto group) HWY_ATTR {
        const Sixteen value = group.Load(x + j);
        squares = MulAdd(value, value, squares);
      });
      floats(t.sums)[i] = Sum(squares);
    }
  });
}

HWY_FLATTEN void SplitNormForward(const SplitNormTensors& t, std::int64_t first, std::int64_t last) {
  WithStorage(t.x.dtype, [&](auto zero) HWY_ATTR {
    using S = decltype(zero);
    const S* gain = data_of<S>(t.gain);
    for (std::int64_t i = first; i < last; ++i) {
      const float rstd = 1 / std::sqrt(floats(t.sums)[i] / t.features + t.eps);
      floats(t.rstd)[i] = rstd;
      const S* x = row_of<S>(t.x, i);
      S* n = row_of<S>(t.out, i);
      ForColumns(t.x.columns(), [&](std::int64_t j, auto group) HWY_ATTR {
        group.Store(Mul(Mul(group.Load(x + j), Splat(rstd)), group.Load(gain + j)), n + j);
      });
    }
  });
}

HWY_FLATTEN void SplitNormDots(const SplitNormTensors& t, std::int64_t first, std::int64_t last) {
  WithStorage(t.x.dtype, [&](auto zero) HWY_ATTR {
    using S = decltype(zero);
    const S* gain = data_of<S>(t.gain);
    for (std::int64_t i = first; i < last; ++i) {
      const Sixteen rstd = Splat(floats(t.rstd)[i]);
      const S *x = row_of<S>(t.x, i), *dn = row_of<S>(t.dn, i);
      Sixteen dot = Splat(0);
      ForColumns(t.x.columns(), [&](std::int64_t j, auto group) HWY_ATTR {
        const Sixteen unit = Mul(group.Load(x + j), rstd);
        dot = MulAdd(Mul(group.Load(dn + j), group.Load(gain + j)), unit, dot);
      });
      floats(t.sums)[i] = Sum(dot);
    }
  });
}

/// Columns [first, last) of all rows, blocks of 64 rows summed by themselves.
HWY_FLATTEN void SplitNormGains(const SplitNormTensors& t, std::int64_t first, std::int64_t last) {
  constexpr std::int64_t block_rows = 64;
  WithStorage(t.x.dtype, [&](auto zero) HWY_ATTR {
    using S = decltype(zero);
    float* d_gain = floats(t.d_gain);
    ForColumns(last - first, [&](std::int64_t column, auto group) HWY_ATTR {
      const std::int64_t j = first + column, rows = t.x.rows();
      Sixteen total = t.accumulate ? group.Load(d_gain + j) : Splat(0);
      for (std::int64_t block = 0; block < rows; block += block_rows) {
        Sixteen part = Splat(0);
        for (std::int64_t i = block; i < std::min(rows, block + block_rows); ++i) {
          const Sixteen unit = Mul(group.Load(row_of<S>(t.x, i) + j), Splat(floats(t.rstd)[i]));
          part = MulAdd(group.Load(row_of<S>(t.dn, i) + j), unit, part);
        }
        total = Add(total, part);
      }
      group.Store(total, d_gain + j);
    });
  });
}

HWY_FLATTEN void SplitNormBackward(const SplitNormTensors& t, std::int64_t first, std::int64_t last) {
  WithStorage(t.x.dtype, [&](auto zero) HWY_ATTR {
    using S = decltype(zero);
    const S* gain = data_of<S>(t.gain);
    for (std::int64_t i = first; i < last; ++i) {
      const Sixteen rstd = Splat(floats(t.rstd)[i]), mean = Splat(t.sums ? floats(t.sums)[i] / t.features : 0);
      const S *x = row_of<S>(t.x, i), *dn = row_of<S>(t.dn, i);
      S* dx = row_of<S>(t.out, i);
      ForColumns(t.x.columns(), [&](std::int64_t j, auto group) HWY_ATTR {
        const Sixteen unit = Mul(group.Load(x + j), rstd);
        group.Store(Mul(NegMulAdd(unit, mean, Mul(group.Load(dn + j), group.Load(gain + j))), rstd), dx + j);
      });
    }
  });
}

}  // namespace lockstep::ops::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lockstep::ops::cpu {
namespace {

HWY_EXPORT(SplitNormSquares);
HWY_EXPORT(SplitNormForward);
HWY_EXPORT(SplitNormDots);
HWY_EXPORT(SplitNormGains);
HWY_EXPORT(SplitNormBackward);

constexpr std::int64_t stripe = 64;  // columns that one worker sums

class CpuSplitNorm final : public SplitNorm {
 public:
  explicit CpuSplitNorm(const Context& context) : SplitNorm(context.observer), context_(context) {
    const ScopedIsa scope(context.isa);
    squares_ = &HWY_DYNAMIC_DISPATCH(SplitNormSquares);
    forward_ = &HWY_DYNAMIC_DISPATCH(SplitNormForward);
    dots_ = &HWY_DYNAMIC_DISPATCH(SplitNormDots);
    gains_ = &HWY_DYNAMIC_DISPATCH(SplitNormGains);
    backward_ = &HWY_DYNAMIC_DISPATCH(SplitNormBackward);
  }

 private:
  using Kernel = void (*)(const SplitNormTensors& tensors, std::int64_t first, std::int64_t last);

  void over_rows(Kernel kernel, const SplitNormTensors& tensors) {
    context_.deal(tensors.x.rows(), rows_per_tile(tensors.x.columns()),
                  [&](std::int64_t first, std::int64_t last) { kernel(tensors, first, last); });
  }

  void do_squares(const Tensor& sums, const Tensor& x) override { over_rows(squares_, {.x = x, .sums = sums}); }

  void do_forward(const Tensor& n, const Tensor& rstd, const Tensor& x, const Tensor& gain, const Tensor& sums,
                  std::int64_t features, float eps) override {
    over_rows(forward_,
              {.x = x, .out = n, .rstd = rstd, .gain = gain, .sums = sums, .features = static_cast<float>(features), .eps = eps});
  }

  void do_dots(const Tensor& sums, const Tensor& dn, const Tensor& x, const Tensor& rstd, const Tensor& gain) override {
    over_rows(dots_, {.x = x, .dn = dn, .rstd = rstd, .gain = gain, .sums = sums});
  }

  void do_gain_gradient(const Tensor& d_gain, const Tensor& dn, const Tensor& x, const Tensor& rstd, bool accumulate) override {
    const SplitNormTensors tensors{.x = x, .dn = dn, .rstd = rstd, .d_gain = d_gain, .accumulate = accumulate};
    context_.deal(x.columns(), stripe, [&](std::int64_t first, std::int64_t last) { gains_(tensors, first, last); });
  }

  void do_backward(const Tensor& dx, const Tensor& dn, const Tensor& x, const Tensor& rstd, const Tensor& gain,
                   const Tensor& dots, std::int64_t features) override {
    over_rows(backward_,
              {.x = x, .out = dx, .dn = dn, .rstd = rstd, .gain = gain, .sums = dots, .features = static_cast<float>(features)});
  }

  Context context_;
  Kernel squares_, forward_, dots_, gains_, backward_;
};

}  // namespace

std::unique_ptr<SplitNorm> make_split_norm(const Context& context) { return std::make_unique<CpuSplitNorm>(context); }

}  // namespace lockstep::ops::cpu
#endif
