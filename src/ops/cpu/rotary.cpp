// Rotary positions, in place. One product and one fused multiply-add an element, in this order at every vector width.

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/cpu/rotary.cpp"
#include <hwy/foreach_target.h>
// clang-format off
#include <hwy/highway.h>
// clang-format on

#include "ops/cpu/context.h"
#include "ops/cpu/isa.h"
#include "ops/cpu/simd/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace lockstep::ops::cpu::HWY_NAMESPACE {

template <bool inverse, class S>
HWY_INLINE void RotateHead(S* x, const float* cosines, const float* sines, std::int64_t half) {
  ForColumns(half, [&](std::int64_t j, auto group) HWY_ATTR {
    const Sixteen a = group.Load(x + j), b = group.Load(x + half + j);
    const Sixteen cosine = group.Load(cosines + j), sine = group.Load(sines + j);
    const Sixteen low = Mul(a, cosine), high = Mul(b, cosine);
    group.Store(inverse ? MulAdd(b, sine, low) : NegMulAdd(b, sine, low), x + j);
    group.Store(inverse ? NegMulAdd(a, sine, high) : MulAdd(a, sine, high), x + half + j);
  });
}

template <class S>
HWY_FLATTEN void RotateRowsAs(const Tensor& x, const Tensor& angles, const RotaryPlace& place, std::int64_t first,
                              std::int64_t last) {
  const std::int64_t size = angles.columns(), half = size / 2;
  for (std::int64_t i = first; i < last; ++i) {
    const float* angle = row_of(angles, place_of(place.positions, place.starts, i));
    S* row = row_of<S>(x, i);
    for (S* head = row; head < row + x.columns(); head += size) {
      if (place.inverse) {
        RotateHead<true>(head, angle, angle + half, half);
      } else {
        RotateHead<false>(head, angle, angle + half, half);
      }
    }
  }
}

void RotateRows(const Tensor& x, const Tensor& angles, const RotaryPlace& place, std::int64_t first, std::int64_t last) {
  WithStorage(x.dtype, [&](auto zero) HWY_ATTR { RotateRowsAs<decltype(zero)>(x, angles, place, first, last); });
}

}  // namespace lockstep::ops::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lockstep::ops::cpu {
namespace {

HWY_EXPORT(RotateRows);

class CpuRotary final : public Rotary {
 public:
  explicit CpuRotary(const Context& context) : Rotary(context.observer), context_(context) {
    const ScopedIsa scope(context.isa);
    rotate_ = &HWY_DYNAMIC_DISPATCH(RotateRows);
  }

 private:
  void do_rotate(const Tensor& x, const Tensor& angles, const RotaryPlace& place) override {
    context_.deal(x.rows(), rows_per_tile(x.columns()),
                  [&](std::int64_t first, std::int64_t last) { rotate_(x, angles, place, first, last); });
  }

  Context context_;
  decltype(&HWY_STATIC_DISPATCH(RotateRows)) rotate_;
};

}  // namespace

std::unique_ptr<Rotary> make_rotary(const Context& context) { return std::make_unique<CpuRotary>(context); }

}  // namespace lockstep::ops::cpu
#endif
