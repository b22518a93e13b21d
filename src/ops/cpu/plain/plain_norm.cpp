// Layer and RMS normalisation one operation at a time, each a pass over all rows. Sums and roundings are those of norm.cpp in its
// order, so the bits are equal. The memory traffic is many times that of norm.cpp.

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/cpu/plain/plain_norm.cpp"
#include <hwy/foreach_target.h>
// clang-format off
#include <hwy/highway.h>
// clang-format on

#include <algorithm>
#include <cmath>

#include "ops/check.h"
#include "ops/cpu/context.h"
#include "ops/cpu/isa.h"
#include "ops/cpu/plain/norm_pass.h"
#include "ops/cpu/simd/lanes-inl.h"
#include "ops/cpu/simd/norm-inl.h"

HWY_BEFORE_NAMESPACE();
namespace lockstep::ops::cpu::HWY_NAMESPACE {

HWY_INLINE float* NormUnitRow(const NormPass& p, std::int64_t i) { return p.unit + (i - p.first) * p.columns; }
HWY_INLINE float* NormDUnitRow(const NormPass& p, std::int64_t i) { return p.d_unit + (i - p.first) * p.columns; }
HWY_INLINE float* NormMeansOf(const NormPass& p, std::int64_t i) { return p.means + 2 * (i - p.first); }
HWY_INLINE float* NormStatsOf(const NormPass& p, std::int64_t i) { return floats(p.stats) + 2 * i; }

template <class Row>
HWY_INLINE void ForNormRows(std::int64_t first, std::int64_t last, const Row& row) {
  for (std::int64_t i = first; i < last; ++i) row(i);
}

template <class S>
HWY_FLATTEN void NormMeans(const NormPass& p, std::int64_t first, std::int64_t last) {
  ForNormRows(first, last, [&](std::int64_t i) HWY_ATTR {
    const S* x = row_of<S>(p.x, i);
    Sixteen sum = Splat(0);
    ForColumns(p.columns, [&](std::int64_t j, auto group) HWY_ATTR { sum = Add(sum, group.Load(x + j)); });
    NormStatsOf(p, i)[0] = Sum(sum) / static_cast<float>(p.columns);
  });
}

/// unit = x - mean.
template <class S>
HWY_FLATTEN void NormCentre(const NormPass& p, std::int64_t first, std::int64_t last) {
  ForNormRows(first, last, [&](std::int64_t i) HWY_ATTR {
    const S* x = row_of<S>(p.x, i);
    const Sixteen mean = Splat(NormStatsOf(p, i)[0]);
    float* unit = NormUnitRow(p, i);
    ForColumns(p.columns, [&](std::int64_t j, auto group) HWY_ATTR { group.Store(Sub(group.Load(x + j), mean), unit + j); });
  });
}

/// rstd, of what is centred.
HWY_FLATTEN void NormDeviations(const NormPass& p, std::int64_t first, std::int64_t last) {
  ForNormRows(first, last, [&](std::int64_t i) HWY_ATTR {
    const float* unit = NormUnitRow(p, i);
    Sixteen squares = Splat(0);
    ForColumns(p.columns, [&](std::int64_t j, auto group) HWY_ATTR {
      const Sixteen difference = group.Load(unit + j);
      squares = MulAdd(difference, difference, squares);
    });
    NormStatsOf(p, i)[1] = 1 / std::sqrt(Sum(squares) / static_cast<float>(p.columns) + p.eps);
  });
}

/// unit *= rstd.
HWY_FLATTEN void NormScale(const NormPass& p, std::int64_t first, std::int64_t last) {
  ForNormRows(first, last, [&](std::int64_t i) HWY_ATTR {
    const Sixteen rstd = Splat(NormStatsOf(p, i)[1]);
    float* unit = NormUnitRow(p, i);
    ForColumns(p.columns, [&](std::int64_t j, auto group) HWY_ATTR { group.Store(Mul(group.Load(unit + j), rstd), unit + j); });
  });
}

/// n = unit * gain + bias + residual.
template <class S>
HWY_FLATTEN void NormAffine(const NormPass& p, std::int64_t first, std::int64_t last) {
  const S *gain = data_of<S>(p.gain), *bias = data_of<S>(p.bias);
  ForNormRows(first, last, [&](std::int64_t i) HWY_ATTR {
    const float* unit = NormUnitRow(p, i);
    const S* rest = row_of<S>(p.added, i);
    S* n = row_of<S>(p.n, i);
    ForColumns(p.columns, [&](std::int64_t j, auto group) HWY_ATTR {
      const Sixteen offset = bias != nullptr ? group.Load(bias + j) : Splat(0);
      const Sixteen normed = MulAdd(group.Load(unit + j), NormGains(group, gain + j, p.form), offset);
      group.Store(rest != nullptr ? Add(normed, group.Load(rest + j)) : normed, n + j);
    });
  });
}

/// d_unit = dn * gain.
template <class S>
HWY_FLATTEN void NormTimesGain(const NormPass& p, std::int64_t first, std::int64_t last) {
  const S* gain = data_of<S>(p.gain);
  ForNormRows(first, last, [&](std::int64_t i) HWY_ATTR {
    const S* dn = row_of<S>(p.dn, i);
    float* d_unit = NormDUnitRow(p, i);
    ForColumns(p.columns, [&](std::int64_t j, auto group)
                              HWY_ATTR { group.Store(Mul(group.Load(dn + j), NormGains(group, gain + j, p.form)), d_unit + j); });
  });
}

/// The means of d_unit (0 where rows are not centred) and of d_unit * unit.
HWY_FLATTEN void NormMeanGradients(const NormPass& p, std::int64_t first, std::int64_t last) {
  const auto count = static_cast<float>(p.columns);
  ForNormRows(first, last, [&](std::int64_t i) HWY_ATTR {
    const float* d_unit = NormDUnitRow(p, i);
    Sixteen sum = Splat(0);
    ForColumns(p.columns, [&](std::int64_t j, auto group) HWY_ATTR { sum = Add(sum, group.Load(d_unit + j)); });
    NormMeansOf(p, i)[0] = p.form == NormForm::layer ? Sum(sum) / count : 0;
  });
  ForNormRows(first, last, [&](std::int64_t i) HWY_ATTR {
    const float *unit = NormUnitRow(p, i), *d_unit = NormDUnitRow(p, i);
    Sixteen dot = Splat(0);
    ForColumns(p.columns,
               [&](std::int64_t j, auto group) HWY_ATTR { dot = MulAdd(group.Load(d_unit + j), group.Load(unit + j), dot); });
    NormMeansOf(p, i)[1] = Sum(dot) / count;
  });
}

/// d_unit -= its mean.
HWY_FLATTEN void NormCentreGradient(const NormPass& p, std::int64_t first, std::int64_t last) {
  ForNormRows(first, last, [&](std::int64_t i) HWY_ATTR {
    const Sixteen mean = Splat(NormMeansOf(p, i)[0]);
    float* d_unit = NormDUnitRow(p, i);
    ForColumns(p.columns,
               [&](std::int64_t j, auto group) HWY_ATTR { group.Store(Sub(group.Load(d_unit + j), mean), d_unit + j); });
  });
}

/// d_unit -= unit * the other mean.
HWY_FLATTEN void NormProjectGradient(const NormPass& p, std::int64_t first, std::int64_t last) {
  ForNormRows(first, last, [&](std::int64_t i) HWY_ATTR {
    const Sixteen mean = Splat(NormMeansOf(p, i)[1]);
    const float* unit = NormUnitRow(p, i);
    float* d_unit = NormDUnitRow(p, i);
    ForColumns(p.columns, [&](std::int64_t j, auto group) HWY_ATTR {
      group.Store(NegMulAdd(group.Load(unit + j), mean, group.Load(d_unit + j)), d_unit + j);
    });
  });
}

/// dx = d_unit * rstd + residual.
template <class S>
HWY_FLATTEN void NormInputGradient(const NormPass& p, std::int64_t first, std::int64_t last) {
  ForNormRows(first, last, [&](std::int64_t i) HWY_ATTR {
    const Sixteen rstd = Splat(NormStatsOf(p, i)[1]);
    const float* d_unit = NormDUnitRow(p, i);
    const S* residual = row_of<S>(p.residual, i);
    S* dx = row_of<S>(p.dx, i);
    ForColumns(p.columns, [&](std::int64_t j, auto group) HWY_ATTR {
      group.Store(MulAdd(group.Load(d_unit + j), rstd, residual != nullptr ? group.Load(residual + j) : Splat(0)), dx + j);
    });
  });
}

/// Columns [first, last) of a parameter's gradient, of all rows of the pass: each block of 64 rows is summed by itself.
template <class S, bool of_gain>
HWY_FLATTEN void NormParameterGradient(const NormPass& p, std::int64_t first, std::int64_t last) {
  float* sum = floats(of_gain ? p.d_gain : p.d_bias);
  ForColumns(last - first, [&](std::int64_t column, auto group) HWY_ATTR {
    const std::int64_t j = first + column;
    Sixteen total = p.add ? group.Load(sum + j) : Splat(0);
    for (std::int64_t block = p.first; block < p.last; block += norm_block) {
      Sixteen part = Splat(0);
      for (std::int64_t i = block; i < std::min(p.last, block + norm_block); ++i) {
        const Sixteen d_n = group.Load(row_of<S>(p.dn, i) + j);
        part = of_gain ? MulAdd(d_n, group.Load(NormUnitRow(p, i) + j), part) : Add(d_n, part);
      }
      total = Add(total, part);
    }
    group.Store(total, sum + j);
  });
}

template <class S>
NormPasses NormPassesOf() {
  return {.means = &NormMeans<S>,
          .centre = &NormCentre<S>,
          .deviations = &NormDeviations,
          .scale = &NormScale,
          .affine = &NormAffine<S>,
          .times_gain = &NormTimesGain<S>,
          .mean_gradients = &NormMeanGradients,
          .centre_gradient = &NormCentreGradient,
          .project_gradient = &NormProjectGradient,
          .input_gradient = &NormInputGradient<S>,
          .gain_gradient = &NormParameterGradient<S, true>,
          .bias_gradient = &NormParameterGradient<S, false>};
}

AllNormPasses NormPassesHere() { return {.f32 = NormPassesOf<float>(), .bf16 = NormPassesOf<BFloat16>()}; }

}  // namespace lockstep::ops::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lockstep::ops::cpu {
namespace {

HWY_EXPORT(NormPassesHere);

constexpr std::int64_t stripe = 64;  // columns that one worker sums

class PlainNorm final : public Norm {
 public:
  PlainNorm(const Context& context, NormForm form, std::span<float> between)
      : Norm(context.observer), context_(context), form_(form), between_(between) {
    const ScopedIsa scope(context.isa);
    passes_ = HWY_DYNAMIC_DISPATCH(NormPassesHere)();
  }

 private:
  /// Calls body for as many rows at a time, in whole blocks, as what passes leave for each other has room for.
  template <class Body>
  void in_turns(NormPass pass, const Body& body) {
    const std::int64_t rows = pass.x.rows();
    pass.columns = pass.x.columns();
    const std::int64_t most = std::ssize(between_) / (2 * pass.columns + 2) / norm_block * norm_block;
    demand(most > 0, "x", "64 rows of it fit the workspace");
    pass.unit = between_.data();
    pass.d_unit = pass.unit + most * pass.columns;
    pass.means = pass.d_unit + most * pass.columns;
    pass.form = form_;
    do {
      pass.last = std::min(rows, pass.first + most);
      body(pass);
      pass.add = true;
      pass.first = pass.last;
    } while (pass.first < rows);
  }

  void over_rows(NormPassKernel kernel, const NormPass& pass) {
    context_.deal(pass.last - pass.first, rows_per_tile(pass.columns),
                  [&](std::int64_t first, std::int64_t last) { kernel(pass, pass.first + first, pass.first + last); });
  }

  void do_forward(const Tensor& n, const Tensor& stats, const Tensor& x, const Tensor& gain, const Tensor& bias, float eps,
                  const Tensor& residual) override {
    const NormPasses& passes = passes_.of(x.dtype);
    in_turns({.x = x, .stats = stats, .gain = gain, .bias = bias, .n = n, .added = residual, .eps = eps},
             [&](const NormPass& pass) {
               if (form_ == NormForm::layer) {
                 over_rows(passes.means, pass);
               } else {
                 for (std::int64_t i = pass.first; i < pass.last; ++i) floats(stats)[2 * i] = 0;
               }
               over_rows(passes.centre, pass);
               over_rows(passes.deviations, pass);
               over_rows(passes.scale, pass);
               over_rows(passes.affine, pass);
             });
  }

  void do_apply(const Tensor& n, const Tensor& stats, const Tensor& x, const Tensor& gain, const Tensor& bias) override {
    const NormPasses& passes = passes_.of(x.dtype);
    in_turns({.x = x, .stats = stats, .gain = gain, .bias = bias, .n = n}, [&](const NormPass& pass) {
      over_rows(passes.centre, pass);
      over_rows(passes.scale, pass);
      over_rows(passes.affine, pass);
    });
  }

  // dn, which dx may be, is read before dx is written.
  void do_backward(const NormBackward& call) override {
    const NormPasses& passes = passes_.of(call.x.dtype);
    in_turns({.x = call.x,
              .stats = call.stats,
              .gain = call.gain,
              .bias = call.bias,
              .n = call.n,
              .dn = call.dn,
              .dx = call.dx,
              .residual = call.residual,
              .d_gain = call.d_gain,
              .d_bias = call.d_bias,
              .add = call.accumulate},
             [&](const NormPass& pass) {
               const auto over_columns = [&](NormPassKernel kernel) {
                 context_.deal(pass.columns, stripe, [&](std::int64_t first, std::int64_t last) { kernel(pass, first, last); });
               };
               over_rows(passes.centre, pass);
               over_rows(passes.scale, pass);
               if (call.d_gain) over_columns(passes.gain_gradient);
               if (call.d_bias) over_columns(passes.bias_gradient);
               over_rows(passes.times_gain, pass);
               over_rows(passes.mean_gradients, pass);
               over_rows(passes.centre_gradient, pass);
               over_rows(passes.project_gradient, pass);
               over_rows(passes.input_gradient, pass);
               if (call.n) over_rows(passes.affine, pass);
             });
  }

  Context context_;
  NormForm form_;
  std::span<float> between_;
  AllNormPasses passes_;
};

}  // namespace

std::unique_ptr<Norm> make_plain_norm(const Context& context, NormForm form, std::span<float> between) {
  return std::make_unique<PlainNorm>(context, form, between);
}

}  // namespace lockstep::ops::cpu
#endif
