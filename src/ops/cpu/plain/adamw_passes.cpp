#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/cpu/plain/adamw_passes.cpp"
#include <hwy/foreach_target.h>
// clang-format off
#include <hwy/highway.h>
// clang-format on

#include <array>

#include "ops/cpu/context.h"
#include "ops/cpu/isa.h"
#include "ops/cpu/plain/adamw_passes.h"
#include "ops/cpu/simd/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace lockstep::ops::cpu::HWY_NAMESPACE {

/// to[j] = f(j, group) for the elements of a pass.
template <class T, class F>
HWY_INLINE void AdamWElementwise(T* to, std::int64_t first, std::int64_t last, const F& f) {
  ForColumns(last - first, [&](std::int64_t j, auto group) HWY_ATTR { group.Store(f(first + j, group), to + first + j); });
}

HWY_INLINE float* AdamWAt(const Tensor& tensor, const AdamWPass& p) { return floats(tensor) + p.first; }

HWY_FLATTEN void AdamWJoin(const AdamWPass& p, std::int64_t first, std::int64_t last) {
  if (!p.tensors.low) return;
  const BFloat16* high = data_of<BFloat16>(p.tensors.publish) + p.first;
  const std::uint16_t* low = data_of<std::uint16_t>(p.tensors.low) + p.first;
  AdamWElementwise(p.weights, first, last, [&](std::int64_t j, auto group) HWY_ATTR { return group.Join(high + j, low + j); });
}

HWY_FLATTEN void AdamWClip(const AdamWPass& p, std::int64_t first, std::int64_t last) {
  const float* g = AdamWAt(p.tensors.gradient, p);
  const Sixteen clip = Splat(p.factors[0]);
  AdamWElementwise(p.gradient, first, last, [&](std::int64_t j, auto group) HWY_ATTR { return Mul(clip, group.Load(g + j)); });
}

HWY_FLATTEN void AdamWDecay(const AdamWPass& p, std::int64_t first, std::int64_t last) {
  float* const w = p.weights;
  const Sixteen keep = Splat(p.factors[5]);
  AdamWElementwise(w, first, last, [&](std::int64_t j, auto group) HWY_ATTR { return Mul(keep, group.Load(w + j)); });
}

HWY_FLATTEN void AdamWFadeFirst(const AdamWPass& p, std::int64_t first, std::int64_t last) {
  float* m = AdamWAt(p.tensors.exp_avg, p);
  const Sixteen beta = Splat(p.factors[1]);
  AdamWElementwise(m, first, last, [&](std::int64_t j, auto group) HWY_ATTR { return Mul(beta, group.Load(m + j)); });
}

HWY_FLATTEN void AdamWAddToFirst(const AdamWPass& p, std::int64_t first, std::int64_t last) {
  float* m = AdamWAt(p.tensors.exp_avg, p);
  const Sixteen rest = Splat(p.factors[2]);
  AdamWElementwise(m, first, last, [&](std::int64_t j, auto group) HWY_ATTR {
    return MulAdd(rest, group.Load(p.gradient + j), group.Load(m + j));
  });
}

HWY_FLATTEN void AdamWFadeSecond(const AdamWPass& p, std::int64_t first, std::int64_t last) {
  float* v = AdamWAt(p.tensors.exp_avg_sq, p);
  const Sixteen beta = Splat(p.factors[3]);
  AdamWElementwise(v, first, last, [&](std::int64_t j, auto group) HWY_ATTR { return Mul(beta, group.Load(v + j)); });
}

HWY_FLATTEN void AdamWAddToSecond(const AdamWPass& p, std::int64_t first, std::int64_t last) {
  float* v = AdamWAt(p.tensors.exp_avg_sq, p);
  const Sixteen rest = Splat(p.factors[4]);
  AdamWElementwise(v, first, last, [&](std::int64_t j, auto group) HWY_ATTR {
    const Sixteen g = group.Load(p.gradient + j);
    return MulAdd(Mul(rest, g), g, group.Load(v + j));
  });
}

HWY_FLATTEN void AdamWRoot(const AdamWPass& p, std::int64_t first, std::int64_t last) {
  const float* v = AdamWAt(p.tensors.exp_avg_sq, p);
  AdamWElementwise(p.gradient, first, last, [&](std::int64_t j, auto group) HWY_ATTR {
    return Map([](FloatVec x) HWY_ATTR { return hn::Sqrt(x); }, group.Load(v + j));
  });
}

HWY_FLATTEN void AdamWDenominator(const AdamWPass& p, std::int64_t first, std::int64_t last) {
  const Sixteen correction = Splat(p.factors[7]), eps = Splat(p.factors[8]);
  AdamWElementwise(p.gradient, first, last,
                   [&](std::int64_t j, auto group) HWY_ATTR { return MulAdd(group.Load(p.gradient + j), correction, eps); });
}

HWY_FLATTEN void AdamWNumerator(const AdamWPass& p, std::int64_t first, std::int64_t last) {
  const float* m = AdamWAt(p.tensors.exp_avg, p);
  const Sixteen rate = Splat(p.factors[6]);
  AdamWElementwise(p.step, first, last, [&](std::int64_t j, auto group) HWY_ATTR { return Mul(rate, group.Load(m + j)); });
}

HWY_FLATTEN void AdamWQuotient(const AdamWPass& p, std::int64_t first, std::int64_t last) {
  AdamWElementwise(p.step, first, last, [&](std::int64_t j, auto group) HWY_ATTR {
    return Map([](FloatVec x, FloatVec y) HWY_ATTR { return hn::Div(x, y); }, group.Load(p.step + j), group.Load(p.gradient + j));
  });
}

HWY_FLATTEN void AdamWStep(const AdamWPass& p, std::int64_t first, std::int64_t last) {
  float* const w = p.weights;
  AdamWElementwise(w, first, last,
                   [&](std::int64_t j, auto group) HWY_ATTR { return Sub(group.Load(w + j), group.Load(p.step + j)); });
}

HWY_FLATTEN void AdamWPublish(const AdamWPass& p, std::int64_t first, std::int64_t last) {
  const Tensor& publish = p.tensors.publish;
  if (!publish || publish.data == p.tensors.weights.data) return;
  const float* const w = p.weights;
  if (publish.dtype == DType::f32) {
    return AdamWElementwise(AdamWAt(publish, p), first, last,
                            [&](std::int64_t j, auto group) HWY_ATTR { return group.Load(w + j); });
  }
  BFloat16* const high = data_of<BFloat16>(publish) + p.first;
  std::uint16_t* const low = p.tensors.low ? data_of<std::uint16_t>(p.tensors.low) + p.first : nullptr;
  ForColumns(last - first, [&](std::int64_t column, auto group) HWY_ATTR {
    const std::int64_t j = first + column;
    group.StoreHigh(group.Load(w + j), high + j);
    if (low != nullptr) group.StoreLow(group.Load(w + j), low + j);
  });
}

std::span<const AdamWPassKernel> AdamWPassesHere() {
  static constexpr std::array<AdamWPassKernel, 13> all{
      &AdamWJoin, &AdamWClip,        &AdamWDecay,     &AdamWFadeFirst, &AdamWAddToFirst, &AdamWFadeSecond, &AdamWAddToSecond,
      &AdamWRoot, &AdamWDenominator, &AdamWNumerator, &AdamWQuotient,  &AdamWStep,       &AdamWPublish};
  return all;
}

}  // namespace lockstep::ops::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lockstep::ops::cpu {
namespace {

HWY_EXPORT(AdamWPassesHere);

}  // namespace

std::span<const AdamWPassKernel> adamw_passes() { return HWY_DYNAMIC_DISPATCH(AdamWPassesHere)(); }

}  // namespace lockstep::ops::cpu
#endif
