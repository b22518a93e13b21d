// AdamW in one pass over weights, gradient and moments.

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/cpu/update.cpp"
#include <hwy/foreach_target.h>
// clang-format off
#include <hwy/highway.h>
// clang-format on

#include <cmath>

#include "ops/cpu/context.h"
#include "ops/cpu/isa.h"
// clang-format off: lanes-inl.h comes first
#include "ops/cpu/simd/lanes-inl.h"
#include "ops/cpu/simd/bfloat16-inl.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace lockstep::ops::cpu::HWY_NAMESPACE {

/// factors: clip, beta1, 1 - beta1, beta2, 1 - beta2, 1 - lr decay, lr / bc1, 1 / sqrt(bc2), eps. Of the places for the new
/// weights, `same` and `narrow` may be null.
void AdamWRange(float* weights, float* same, std::uint16_t* narrow, const float* gradient, float* exp_avg, float* exp_avg_sq,
                const float (&factors)[9], std::int64_t count) {
  const Sixteen clip = Splat(factors[0]), beta1 = Splat(factors[1]), rest1 = Splat(factors[2]), beta2 = Splat(factors[3]),
                rest2 = Splat(factors[4]), keep = Splat(factors[5]), rate = Splat(factors[6]), correction = Splat(factors[7]),
                eps = Splat(factors[8]);
  ForColumns(count, [&](std::int64_t j, auto group) HWY_ATTR {
    const Sixteen g = Mul(clip, group.Load(gradient + j));
    const Sixteen m = MulAdd(rest1, g, Mul(beta1, group.Load(exp_avg + j)));
    const Sixteen v = MulAdd(Mul(rest2, g), g, Mul(beta2, group.Load(exp_avg_sq + j)));
    const Sixteen root = Map([](FloatVec x) HWY_ATTR { return hn::Sqrt(x); }, v);
    const Sixteen step =
        Map([](FloatVec x, FloatVec y) HWY_ATTR { return hn::Div(x, y); }, Mul(rate, m), MulAdd(root, correction, eps));
    const Sixteen w = Sub(Mul(keep, group.Load(weights + j)), step);
    group.Store(m, exp_avg + j);
    group.Store(v, exp_avg_sq + j);
    group.Store(w, weights + j);
    if (same != nullptr) group.Store(w, same + j);
    if (narrow != nullptr) {
      std::uint16_t part[16];
      StoreBf16(w, part);
      std::memcpy(narrow + j, part, group.Size() * sizeof(std::uint16_t));
    }
  });
}

}  // namespace lockstep::ops::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lockstep::ops::cpu {
namespace {

HWY_EXPORT(AdamWRange);

constexpr std::int64_t tile = 8192;

class CpuUpdate final : public Update {
 public:
  explicit CpuUpdate(const Context& context) : context_(context) {
    const ScopedIsa scope(context.isa);
    adamw_ = &HWY_DYNAMIC_DISPATCH(AdamWRange);
  }

 private:
  void do_adamw(const Tensor& weights, const Tensor& publish, const Tensor& gradient, const Tensor& exp_avg,
                const Tensor& exp_avg_sq, const AdamW& rule, const StepScalars& scalars) override {
    if (scalars.host(StepScalars::finite) == 0) return;
    const double rate = scalars.host(StepScalars::learning_rate);
    const float factors[9] = {scalars.host(StepScalars::clip_factor),
                              rule.beta1,
                              1 - rule.beta1,
                              rule.beta2,
                              1 - rule.beta2,
                              static_cast<float>(1 - rate * rule.weight_decay),
                              static_cast<float>(rate / scalars.host(StepScalars::bias_correction1)),
                              static_cast<float>(1 / std::sqrt(static_cast<double>(scalars.host(StepScalars::bias_correction2)))),
                              rule.eps};
    const bool narrow = publish && publish.dtype == DType::bf16;
    const bool same = publish && !narrow && publish.data != weights.data;
    context_.deal(weights.elements(), tile, [&](std::int64_t first, std::int64_t last) {
      adamw_(floats(weights) + first, same ? floats(publish) + first : nullptr,
             narrow ? reinterpret_cast<std::uint16_t*>(publish.data) + first : nullptr, floats(gradient) + first,
             floats(exp_avg) + first, floats(exp_avg_sq) + first, factors, last - first);
    });
  }

  Context context_;
  decltype(&HWY_STATIC_DISPATCH(AdamWRange)) adamw_;
};

}  // namespace

std::unique_ptr<Update> make_update(const Context& context) { return std::make_unique<CpuUpdate>(context); }

}  // namespace lockstep::ops::cpu
#endif
