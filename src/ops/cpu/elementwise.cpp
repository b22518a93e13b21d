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
#include "ops/cpu/simd/philox-inl.h"
#include "ops/cpu/simd/normal-inl.h"
#include "ops/cpu/simd/vector_math-inl.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace lockstep::ops::cpu::HWY_NAMESPACE {

HWY_FLATTEN void FillRange(const Tensor& x, float value, std::int64_t first, std::int64_t last) {
  WithStorage(x.dtype, [&](auto zero) HWY_ATTR {
    auto* to = data_of<decltype(zero)>(x) + first;
    ForColumns(last - first, [&](std::int64_t j, auto group) HWY_ATTR { group.Store(Splat(value), to + j); });
  });
}

HWY_FLATTEN void AddRange(const Tensor& y, const Tensor& x, std::int64_t first, std::int64_t last) {
  WithStorage(x.dtype, [&](auto zero) HWY_ATTR {
    using S = decltype(zero);
    const S* from = data_of<S>(x) + first;
    S* to = data_of<S>(y) + first;
    ForColumns(last - first,
               [&](std::int64_t j, auto group) HWY_ATTR { group.Store(Add(group.Load(to + j), group.Load(from + j)), to + j); });
  });
}

/// Rows [first, last).
HWY_FLATTEN void FinishRows(const Tensor& y, const Tensor& sums, const Tensor& bias, const Tensor& residual, std::int64_t first,
                            std::int64_t last) {
  WithStorage(y.dtype, [&](auto zero) HWY_ATTR {
    using S = decltype(zero);
    const S* add = data_of<S>(bias);
    for (std::int64_t i = first; i < last; ++i) {
      const float* from = row_of(sums, i);
      const S* rest = row_of<S>(residual, i);
      S* to = row_of<S>(y, i);
      ForColumns(sums.columns(), [&](std::int64_t j, auto group) HWY_ATTR {
        Sixteen value = group.Load(from + j);
        if (add != nullptr) value = Add(value, group.Load(add + j));
        if (rest != nullptr) value = Add(value, group.Load(rest + j));
        group.Store(value, to + j);
      });
    }
  });
}

HWY_FLATTEN void ScaleRange(const Tensor& x, float factor, std::int64_t first, std::int64_t last) {
  WithStorage(x.dtype, [&](auto zero) HWY_ATTR {
    auto* to = data_of<decltype(zero)>(x) + first;
    ForColumns(last - first,
               [&](std::int64_t j, auto group) HWY_ATTR { group.Store(Mul(group.Load(to + j), Splat(factor)), to + j); });
  });
}

/// `tanhs` may be null.
HWY_FLATTEN void SoftCapRange(float* x, float* tanhs, float cap, std::int64_t count) {
  const Sixteen factor = Splat(cap), part = Splat(1 / cap);
  ForColumns(count, [&](std::int64_t j, auto group) HWY_ATTR {
    const Sixteen tanh = Map([](FloatVec v) HWY_ATTR { return Tanh(floats_tag, v); }, Mul(group.Load(x + j), part));
    if (tanhs != nullptr) group.Store(tanh, tanhs + j);
    group.Store(Mul(tanh, factor), x + j);
  });
}

HWY_FLATTEN void SoftCapBackwardRange(float* d, const float* tanhs, std::int64_t count) {
  const Sixteen one = Splat(1);
  ForColumns(count, [&](std::int64_t j, auto group) HWY_ATTR {
    const Sixteen tanh = group.Load(tanhs + j);
    group.Store(Mul(group.Load(d + j), NegMulAdd(tanh, tanh, one)), d + j);
  });
}

HWY_FLATTEN void NarrowRange(BFloat16* y, const float* x, std::int64_t count) {
  ForColumns(count, [&](std::int64_t j, auto group) HWY_ATTR { group.Store(group.Load(x + j), y + j); });
}

HWY_FLATTEN void WidenRange(float* y, const BFloat16* x, std::int64_t count) {
  ForColumns(count, [&](std::int64_t j, auto group) HWY_ATTR { group.Store(group.Load(x + j), y + j); });
}

HWY_FLATTEN void SplitRange(BFloat16* high, std::uint16_t* low, const float* x, std::int64_t count) {
  ForColumns(count, [&](std::int64_t j, auto group) HWY_ATTR {
    const Sixteen value = group.Load(x + j);
    group.StoreHigh(value, high + j);
    if (low != nullptr) group.StoreLow(value, low + j);
  });
}

HWY_FLATTEN void JoinRange(float* x, const BFloat16* high, const std::uint16_t* low, std::int64_t count) {
  ForColumns(count, [&](std::int64_t j, auto group) HWY_ATTR { group.Store(group.Join(high + j, low + j), x + j); });
}

/// Elements first_element + [first, last) of the sequence to those of x. Groups of 64 that x cuts, or narrows, are drawn whole
/// and copied in part.
void NormalRange(const Tensor& x, std::int64_t first_element, std::array<std::uint32_t, 2> key, float mean, float std,
                 std::int64_t first, std::int64_t last) {
  const std::int64_t begin = first_element + first, end = first_element + last;
  for (std::int64_t group = begin / 64 * 64; group < end; group += 64) {
    const auto block = static_cast<std::uint64_t>(group / 4);
    if (x.dtype == DType::f32 && group >= begin && group + 64 <= end) {
      Normal64(floats(x) + (group - first_element), block, key[0], key[1], mean, std);
      continue;
    }
    float part[64];
    Normal64(part, block, key[0], key[1], mean, std);
    const std::int64_t from = std::max(group, begin), to = std::min(group + 64, end);
    if (x.dtype == DType::f32) {
      std::memcpy(floats(x) + (from - first_element), part + (from - group), static_cast<std::size_t>(to - from) * sizeof(float));
    } else {
      NarrowRange(data_of<BFloat16>(x) + (from - first_element), part + (from - group), to - from);
    }
  }
}

}  // namespace lockstep::ops::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lockstep::ops::cpu {
namespace {

HWY_EXPORT(FillRange);
HWY_EXPORT(AddRange);
HWY_EXPORT(FinishRows);
HWY_EXPORT(ScaleRange);
HWY_EXPORT(SoftCapRange);
HWY_EXPORT(SoftCapBackwardRange);
HWY_EXPORT(NarrowRange);
HWY_EXPORT(WidenRange);
HWY_EXPORT(SplitRange);
HWY_EXPORT(JoinRange);
HWY_EXPORT(NormalRange);

constexpr std::int64_t tile = 16384;

class CpuElementwise final : public Elementwise {
 public:
  explicit CpuElementwise(const Context& context) : Elementwise(context.observer), context_(context) {
    const ScopedIsa scope(context.isa);
    fill_ = &HWY_DYNAMIC_DISPATCH(FillRange);
    add_ = &HWY_DYNAMIC_DISPATCH(AddRange);
    finish_ = &HWY_DYNAMIC_DISPATCH(FinishRows);
    scale_ = &HWY_DYNAMIC_DISPATCH(ScaleRange);
    soft_cap_ = &HWY_DYNAMIC_DISPATCH(SoftCapRange);
    soft_cap_backward_ = &HWY_DYNAMIC_DISPATCH(SoftCapBackwardRange);
    narrow_ = &HWY_DYNAMIC_DISPATCH(NarrowRange);
    widen_ = &HWY_DYNAMIC_DISPATCH(WidenRange);
    split_ = &HWY_DYNAMIC_DISPATCH(SplitRange);
    join_ = &HWY_DYNAMIC_DISPATCH(JoinRange);
    normal_ = &HWY_DYNAMIC_DISPATCH(NormalRange);
  }

 private:
  void do_zero(const Tensor& x) override {
    context_.deal(static_cast<std::int64_t>(x.bytes()), 16 * tile, [&](std::int64_t first, std::int64_t last) {
      std::memset(x.data + first, 0, static_cast<std::size_t>(last - first));
    });
  }

  void do_fill(const Tensor& x, float value) override {
    context_.deal(x.elements(), tile, [&](std::int64_t first, std::int64_t last) { fill_(x, value, first, last); });
  }

  void do_cast(const Tensor& y, const Tensor& x) override {
    deal_pairs(y, x, [&](const Tensor& to, const Tensor& from, std::int64_t first, std::int64_t last) {
      if (to.dtype == from.dtype) {
        const std::size_t size = size_of(from.dtype), at = static_cast<std::size_t>(first) * size;
        std::memmove(to.data + at, from.data + at, static_cast<std::size_t>(last - first) * size);
      } else if (to.dtype == DType::bf16) {
        narrow_(data_of<BFloat16>(to) + first, floats(from) + first, last - first);
      } else {
        widen_(floats(to) + first, data_of<BFloat16>(from) + first, last - first);
      }
    });
  }

  void do_split(const Tensor& high, const Tensor& low, const Tensor& x) override {
    std::uint16_t* const below = low ? data_of<std::uint16_t>(low) : nullptr;
    context_.deal(x.elements(), tile, [&](std::int64_t first, std::int64_t last) {
      split_(data_of<BFloat16>(high) + first, below == nullptr ? nullptr : below + first, floats(x) + first, last - first);
    });
  }

  void do_join(const Tensor& x, const Tensor& high, const Tensor& low) override {
    context_.deal(x.elements(), tile, [&](std::int64_t first, std::int64_t last) {
      join_(floats(x) + first, data_of<BFloat16>(high) + first, data_of<std::uint16_t>(low) + first, last - first);
    });
  }

  void do_add(const Tensor& y, const Tensor& x) override {
    deal_pairs(y, x,
               [&](const Tensor& to, const Tensor& from, std::int64_t first, std::int64_t last) { add_(to, from, first, last); });
  }

  void do_finish_sums(const Tensor& y, const Tensor& sums, const Tensor& bias, const Tensor& residual) override {
    context_.deal(sums.rows(), rows_per_tile(sums.columns()),
                  [&](std::int64_t first, std::int64_t last) { finish_(y, sums, bias, residual, first, last); });
  }

  void do_scale(const Tensor& x, float factor) override {
    context_.deal(x.elements(), tile, [&](std::int64_t first, std::int64_t last) { scale_(x, factor, first, last); });
  }

  void do_soft_cap(const Tensor& x, const Tensor& tanhs, float cap) override {
    context_.deal(x.elements(), tile, [&](std::int64_t first, std::int64_t last) {
      soft_cap_(floats(x) + first, tanhs ? floats(tanhs) + first : nullptr, cap, last - first);
    });
  }

  void do_soft_cap_backward(const Tensor& d, const Tensor& tanhs) override {
    context_.deal(d.elements(), tile, [&](std::int64_t first, std::int64_t last) {
      soft_cap_backward_(floats(d) + first, floats(tanhs) + first, last - first);
    });
  }

  void do_normal(const Tensor& x, const CounterRng& rng, std::int64_t first_element, float mean, float std) override {
    const auto key = rng.key();
    context_.deal(x.elements(), tile,
                  [&](std::int64_t first, std::int64_t last) { normal_(x, first_element, key, mean, std, first, last); });
  }

  void do_uniform(const Tensor& x, const CounterRng& rng, std::int64_t first_element, float low, float high) override {
    const double width = static_cast<double>(high) - low;
    context_.deal(x.elements(), tile / 8, [&](std::int64_t first, std::int64_t last) {
      for (std::int64_t i = first; i < last; ++i) {
        const auto value = static_cast<float>(low + width * rng.uniform(static_cast<std::uint64_t>(first_element + i)));
        if (x.dtype == DType::bf16) {
          data_of<BFloat16>(x)[i] = to_bfloat16(value);
        } else {
          floats(x)[i] = value;
        }
      }
    });
  }

  // work(y, x, first, last) on elements of dense tensors: the two, or rows of theirs.
  template <class Work>
  void deal_pairs(const Tensor& y, const Tensor& x, const Work& work) {
    if (x.dense() && y.dense()) {
      context_.deal(x.elements(), tile, [&](std::int64_t first, std::int64_t last) { work(y, x, first, last); });
      return;
    }
    context_.deal(x.rows(), rows_per_tile(x.columns()), [&](std::int64_t first, std::int64_t last) {
      for (std::int64_t row = first; row < last; ++row) work(y.slice_rows(row, 1), x.slice_rows(row, 1), 0, x.columns());
    });
  }

  Context context_;
  decltype(&HWY_STATIC_DISPATCH(FillRange)) fill_;
  decltype(&HWY_STATIC_DISPATCH(AddRange)) add_;
  decltype(&HWY_STATIC_DISPATCH(FinishRows)) finish_;
  decltype(&HWY_STATIC_DISPATCH(ScaleRange)) scale_;
  decltype(&HWY_STATIC_DISPATCH(SoftCapRange)) soft_cap_;
  decltype(&HWY_STATIC_DISPATCH(SoftCapBackwardRange)) soft_cap_backward_;
  decltype(&HWY_STATIC_DISPATCH(NarrowRange)) narrow_;
  decltype(&HWY_STATIC_DISPATCH(WidenRange)) widen_;
  decltype(&HWY_STATIC_DISPATCH(SplitRange)) split_;
  decltype(&HWY_STATIC_DISPATCH(JoinRange)) join_;
  decltype(&HWY_STATIC_DISPATCH(NormalRange)) normal_;
};

}  // namespace

std::unique_ptr<Elementwise> make_elementwise(const Context& context) { return std::make_unique<CpuElementwise>(context); }

}  // namespace lockstep::ops::cpu
#endif
