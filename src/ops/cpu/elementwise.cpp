// Plain element-wise work in tiles of 16384 elements, and the numbers that initialise parameters.

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/cpu/elementwise.cpp"
#include <hwy/foreach_target.h>
// clang-format off
#include <hwy/highway.h>
// clang-format on

#include <cstring>

#include "ops/cpu/context.h"
#include "ops/cpu/isa.h"
// clang-format off: lanes-inl.h comes first
#include "ops/cpu/simd/lanes-inl.h"
#include "ops/cpu/simd/bfloat16-inl.h"
#include "ops/cpu/simd/philox-inl.h"
#include "ops/cpu/simd/normal-inl.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace lockstep::ops::cpu::HWY_NAMESPACE {

void FillRange(float* x, std::int64_t count, float value) {
  ForColumns(count, [&](std::int64_t j, auto group) HWY_ATTR { group.Store(Splat(value), x + j); });
}

void AddRange(float* y, const float* x, std::int64_t count) {
  ForColumns(count, [&](std::int64_t j, auto group) HWY_ATTR { group.Store(Add(group.Load(y + j), group.Load(x + j)), y + j); });
}

void ScaleRange(float* x, std::int64_t count, float factor) {
  ForColumns(count, [&](std::int64_t j, auto group) HWY_ATTR { group.Store(Mul(group.Load(x + j), Splat(factor)), x + j); });
}

void NarrowRange(std::uint16_t* y, const float* x, std::int64_t count) {
  ForColumns(count, [&](std::int64_t j, auto group) HWY_ATTR {
    std::uint16_t part[16];
    StoreBf16(group.Load(x + j), part);
    std::memcpy(y + j, part, group.Size() * sizeof(std::uint16_t));
  });
}

void WidenRange(float* y, const std::uint16_t* x, std::int64_t count) {
  ForColumns(count, [&](std::int64_t j, auto group) HWY_ATTR {
    std::uint16_t part[16] = {};
    std::memcpy(part, x + j, group.Size() * sizeof(std::uint16_t));
    group.Store(LoadBf16(part), y + j);
  });
}

/// Elements [first, first + count) of the sequence to x. Groups of 64 that x cuts are drawn whole and copied in part.
void NormalRange(float* x, std::int64_t first, std::int64_t count, std::uint32_t key0, std::uint32_t key1, float mean,
                 float std) {
  const std::int64_t last = first + count;
  for (std::int64_t group = first / 64 * 64; group < last; group += 64) {
    const auto block = static_cast<std::uint64_t>(group / 4);
    if (group >= first && group + 64 <= last) {
      Normal64(x + (group - first), block, key0, key1, mean, std);
      continue;
    }
    float part[64];
    Normal64(part, block, key0, key1, mean, std);
    const std::int64_t begin = std::max(group, first), end = std::min(group + 64, last);
    std::memcpy(x + (begin - first), part + (begin - group), static_cast<std::size_t>(end - begin) * sizeof(float));
  }
}

}  // namespace lockstep::ops::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lockstep::ops::cpu {
namespace {

HWY_EXPORT(FillRange);
HWY_EXPORT(AddRange);
HWY_EXPORT(ScaleRange);
HWY_EXPORT(NarrowRange);
HWY_EXPORT(WidenRange);
HWY_EXPORT(NormalRange);

constexpr std::int64_t tile = 16384;

std::uint16_t* halves(const Tensor& x) { return reinterpret_cast<std::uint16_t*>(x.data); }

class CpuElementwise final : public Elementwise {
 public:
  explicit CpuElementwise(const Context& context) : context_(context) {
    const ScopedIsa scope(context.isa);
    fill_ = &HWY_DYNAMIC_DISPATCH(FillRange);
    add_ = &HWY_DYNAMIC_DISPATCH(AddRange);
    scale_ = &HWY_DYNAMIC_DISPATCH(ScaleRange);
    narrow_ = &HWY_DYNAMIC_DISPATCH(NarrowRange);
    widen_ = &HWY_DYNAMIC_DISPATCH(WidenRange);
    normal_ = &HWY_DYNAMIC_DISPATCH(NormalRange);
  }

 private:
  void do_zero(const Tensor& x) override {
    context_.deal(static_cast<std::int64_t>(x.bytes()), 16 * tile, [&](std::int64_t first, std::int64_t last) {
      std::memset(x.data + first, 0, static_cast<std::size_t>(last - first));
    });
  }

  void do_fill(const Tensor& x, float value) override {
    context_.deal(x.elements(), tile,
                  [&](std::int64_t first, std::int64_t last) { fill_(floats(x) + first, last - first, value); });
  }

  void do_cast(const Tensor& y, const Tensor& x) override {
    context_.deal(x.elements(), tile, [&](std::int64_t first, std::int64_t last) {
      if (y.dtype == x.dtype) {
        const std::size_t size = size_of(x.dtype), at = static_cast<std::size_t>(first) * size;
        std::memmove(y.data + at, x.data + at, static_cast<std::size_t>(last - first) * size);
      } else if (y.dtype == DType::bf16) {
        narrow_(halves(y) + first, floats(x) + first, last - first);
      } else {
        widen_(floats(y) + first, halves(x) + first, last - first);
      }
    });
  }

  void do_add(const Tensor& y, const Tensor& x) override {
    context_.deal(x.elements(), tile,
                  [&](std::int64_t first, std::int64_t last) { add_(floats(y) + first, floats(x) + first, last - first); });
  }

  void do_scale(const Tensor& x, float factor) override {
    context_.deal(x.elements(), tile,
                  [&](std::int64_t first, std::int64_t last) { scale_(floats(x) + first, last - first, factor); });
  }

  void do_normal(const Tensor& x, const CounterRng& rng, std::int64_t first_element, float mean, float std) override {
    const auto key = rng.key();
    context_.deal(x.elements(), tile, [&](std::int64_t first, std::int64_t last) {
      normal_(floats(x) + first, first_element + first, last - first, key[0], key[1], mean, std);
    });
  }

  void do_uniform(const Tensor& x, const CounterRng& rng, std::int64_t first_element, float low, float high) override {
    const double width = static_cast<double>(high) - low;
    context_.deal(x.elements(), tile / 8, [&](std::int64_t first, std::int64_t last) {
      for (std::int64_t i = first; i < last; ++i) {
        floats(x)[i] = static_cast<float>(low + width * rng.uniform(static_cast<std::uint64_t>(first_element + i)));
      }
    });
  }

  Context context_;
  decltype(&HWY_STATIC_DISPATCH(FillRange)) fill_;
  decltype(&HWY_STATIC_DISPATCH(AddRange)) add_;
  decltype(&HWY_STATIC_DISPATCH(ScaleRange)) scale_;
  decltype(&HWY_STATIC_DISPATCH(NarrowRange)) narrow_;
  decltype(&HWY_STATIC_DISPATCH(WidenRange)) widen_;
  decltype(&HWY_STATIC_DISPATCH(NormalRange)) normal_;
};

}  // namespace

std::unique_ptr<Elementwise> make_elementwise(const Context& context) { return std::make_unique<CpuElementwise>(context); }

}  // namespace lockstep::ops::cpu
#endif
