// AdamW and stochastic gradient descent, each in one pass over weights, gradient and what the rule keeps.

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/cpu/update.cpp"
#include <hwy/foreach_target.h>
// clang-format off
#include <hwy/highway.h>
// clang-format on

#include <cmath>

#include "ops/cpu/context.h"
#include "ops/cpu/isa.h"
#include "ops/cpu/simd/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace lockstep::ops::cpu::HWY_NAMESPACE {

/// Where new weights go too, from element 0 on; null: nowhere.
struct Published {
  float* same;
  BFloat16* narrow;
};

inline Published PublishedTo(const Tensor& weights, const Tensor& publish) {
  const bool apart = publish.data != weights.data, narrow = publish.dtype == DType::bf16;
  return {apart && !narrow ? floats(publish) : nullptr, apart && narrow ? data_of<BFloat16>(publish) : nullptr};
}

/// factors: clip, beta1, 1 - beta1, beta2, 1 - beta2, 1 - lr decay, lr / bc1, 1 / sqrt(bc2), eps. The step is taken with the
/// moments as they are stored.
template <class S>
HWY_FLATTEN void AdamWRangeAs(const AdamWTensors& tensors, const float (&factors)[9], std::int64_t first, std::int64_t last) {
  const Published published = PublishedTo(tensors.weights, tensors.publish);
  S *weights = data_of<S>(tensors.weights), *exp_avg = data_of<S>(tensors.exp_avg), *exp_avg_sq = data_of<S>(tensors.exp_avg_sq);
  const float* gradient = floats(tensors.gradient);
  const Sixteen clip = Splat(factors[0]), beta1 = Splat(factors[1]), rest1 = Splat(factors[2]), beta2 = Splat(factors[3]),
                rest2 = Splat(factors[4]), keep = Splat(factors[5]), rate = Splat(factors[6]), correction = Splat(factors[7]),
                eps = Splat(factors[8]);
  ForColumns(last - first, [&](std::int64_t column, auto group) HWY_ATTR {
    const std::int64_t j = first + column;
    const Sixteen g = Mul(clip, group.Load(gradient + j));
    const Sixteen m = Rounded<S>(MulAdd(rest1, g, Mul(beta1, group.Load(exp_avg + j))));
    const Sixteen v = Rounded<S>(MulAdd(Mul(rest2, g), g, Mul(beta2, group.Load(exp_avg_sq + j))));
    const Sixteen root = Map([](FloatVec x) HWY_ATTR { return hn::Sqrt(x); }, v);
    const Sixteen step =
        Map([](FloatVec x, FloatVec y) HWY_ATTR { return hn::Div(x, y); }, Mul(rate, m), MulAdd(root, correction, eps));
    const Sixteen w = Sub(Mul(keep, group.Load(weights + j)), step);
    group.Store(m, exp_avg + j);
    group.Store(v, exp_avg_sq + j);
    group.Store(w, weights + j);
    if (published.same != nullptr) group.Store(w, published.same + j);
    if (published.narrow != nullptr) group.Store(w, published.narrow + j);
  });
}

void AdamWRange(const AdamWTensors& tensors, const float (&factors)[9], std::int64_t first, std::int64_t last) {
  WithStorage(tensors.weights.dtype, [&](auto zero) HWY_ATTR { AdamWRangeAs<decltype(zero)>(tensors, factors, first, last); });
}

/// factors: clip, decay, momentum, lr. The step is taken with the buffer as it is stored.
template <class S>
HWY_FLATTEN void SgdRangeAs(const SgdTensors& tensors, const float (&factors)[4], std::int64_t first, std::int64_t last) {
  const Published published = PublishedTo(tensors.weights, tensors.publish);
  S* weights = data_of<S>(tensors.weights);
  S* buffer = tensors.momentum_buffer ? data_of<S>(tensors.momentum_buffer) : nullptr;
  const float* gradient = floats(tensors.gradient);
  const Sixteen clip = Splat(factors[0]), decay = Splat(factors[1]), momentum = Splat(factors[2]), rate = Splat(factors[3]);
  ForColumns(last - first, [&](std::int64_t column, auto group) HWY_ATTR {
    const std::int64_t j = first + column;
    const Sixteen before = group.Load(weights + j);
    Sixteen step = MulAdd(decay, before, Mul(clip, group.Load(gradient + j)));
    if (buffer != nullptr) {
      step = Rounded<S>(MulAdd(momentum, group.Load(buffer + j), step));
      group.Store(step, buffer + j);
    }
    const Sixteen w = Sub(before, Mul(rate, step));
    group.Store(w, weights + j);
    if (published.same != nullptr) group.Store(w, published.same + j);
    if (published.narrow != nullptr) group.Store(w, published.narrow + j);
  });
}

void SgdRange(const SgdTensors& tensors, const float (&factors)[4], std::int64_t first, std::int64_t last) {
  WithStorage(tensors.weights.dtype, [&](auto zero) HWY_ATTR { SgdRangeAs<decltype(zero)>(tensors, factors, first, last); });
}

}  // namespace lockstep::ops::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lockstep::ops::cpu {
namespace {

HWY_EXPORT(AdamWRange);
HWY_EXPORT(SgdRange);

constexpr std::int64_t tile = 8192;

class CpuUpdate final : public Update {
 public:
  explicit CpuUpdate(const Context& context) : Update(context.observer), context_(context) {
    const ScopedIsa scope(context.isa);
    adamw_ = &HWY_DYNAMIC_DISPATCH(AdamWRange);
    sgd_ = &HWY_DYNAMIC_DISPATCH(SgdRange);
  }

 private:
  void do_adamw(const AdamWTensors& tensors, const AdamW& rule, const StepScalars& scalars) override {
    const float* const given = floats(scalars.values);
    if (given[StepScalars::finite] == 0) return;
    const double rate = given[StepScalars::learning_rate];
    const float factors[9] = {given[StepScalars::clip_factor],
                              rule.beta1,
                              1 - rule.beta1,
                              rule.beta2,
                              1 - rule.beta2,
                              static_cast<float>(1 - rate * rule.weight_decay),
                              static_cast<float>(rate / given[StepScalars::bias_correction1]),
                              static_cast<float>(1 / std::sqrt(static_cast<double>(given[StepScalars::bias_correction2]))),
                              rule.eps};
    context_.deal(tensors.weights.elements(), tile,
                  [&](std::int64_t first, std::int64_t last) { adamw_(tensors, factors, first, last); });
  }

  void do_sgd(const SgdTensors& tensors, const Sgd& rule, const StepScalars& scalars) override {
    const float* const given = floats(scalars.values);
    if (given[StepScalars::finite] == 0) return;
    const float factors[4] = {given[StepScalars::clip_factor], rule.weight_decay, rule.momentum,
                              given[StepScalars::learning_rate]};
    context_.deal(tensors.weights.elements(), tile,
                  [&](std::int64_t first, std::int64_t last) { sgd_(tensors, factors, first, last); });
  }

  Context context_;
  decltype(&HWY_STATIC_DISPATCH(AdamWRange)) adamw_;
  decltype(&HWY_STATIC_DISPATCH(SgdRange)) sgd_;
};

}  // namespace

std::unique_ptr<Update> make_update(const Context& context) { return std::make_unique<CpuUpdate>(context); }

}  // namespace lockstep::ops::cpu
#endif
