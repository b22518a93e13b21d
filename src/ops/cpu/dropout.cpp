// Dropout: masks are drawn 64 features at a time, where they are used.

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/cpu/dropout.cpp"
#include <hwy/foreach_target.h>
// clang-format off
#include <hwy/highway.h>
// clang-format on

#include <cmath>

#include "ops/cpu/context.h"
#include "ops/cpu/isa.h"
// clang-format off: lanes-inl.h comes first
#include "ops/cpu/simd/lanes-inl.h"
#include "ops/cpu/simd/philox-inl.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace lockstep::ops::cpu::HWY_NAMESPACE {

/// Zero where the word is below `threshold`.
HWY_INLINE Sixteen KeepDrawn(const Sixteen& x, const std::uint32_t* words, std::uint32_t threshold) {
  const hn::RebindToSigned<Words> integers;
  const auto flip = hn::Set(words_tag, 0x80000000U);  // compares unsigned numbers as signed ones
  const auto below = hn::BitCast(integers, hn::Xor(hn::Set(words_tag, threshold), flip));
  Sixteen result;
  for (std::size_t k = 0; k < vector_count; ++k) {
    const auto word = hn::BitCast(integers, hn::Xor(hn::LoadU(words_tag, words + k * vector_lanes), flip));
    result.v[k] = hn::IfThenZeroElse(hn::RebindMask(floats_tag, hn::Gt(below, word)), x.v[k]);
  }
  return result;
}

/// The words of 64 indices from `index` on to `words`, behind its first index % 4, which belong to others.
HWY_INLINE void DrawIndices(std::uint32_t (&words)[128], std::int64_t index, std::uint32_t position, std::uint64_t sample,
                            const std::uint32_t (&key)[2]) {
  const auto draw = [&](std::int64_t from, std::uint32_t* to) HWY_ATTR {
    Draw64(to, static_cast<std::uint32_t>(from / 4), position, static_cast<std::uint32_t>(sample),
           static_cast<std::uint32_t>(sample >> 32), key[0], key[1]);
  };
  draw(index, words);
  if (index % 4 != 0) draw(index + 64, words + 64);
}

/// Rows [first, last) of y = mask(x) / (1 - p) + residual.
template <class S>
HWY_FLATTEN void DropoutRowsAs(const Tensor& y, const Tensor& x, const Tensor& residual, const DropoutSite& site,
                               std::int64_t first, std::int64_t last) {
  const auto threshold = static_cast<std::uint32_t>(std::ceil(static_cast<double>(site.p) * 4294967296.0));
  const Sixteen scale = Splat(1 / (1 - site.p));
  const std::int64_t rows = std::max<std::int64_t>(1, site.positions.count()), skipped = site.first_index % 4;
  for (std::int64_t i = first; i < last; ++i) {
    const auto sample = static_cast<std::uint64_t>(site.first_sample + i / rows);
    const auto position = static_cast<std::uint32_t>(site.positions.at(i % rows));
    const S* from = row_of<S>(x, i);
    const S* rest = row_of<S>(residual, i);
    S* to = row_of<S>(y, i);
    alignas(64) std::uint32_t words[128];
    ForColumns(x.columns(), [&](std::int64_t j, auto group) HWY_ATTR {
      Sixteen value = group.Load(from + j);
      if (site.p > 0) {
        if (j % 64 == 0) DrawIndices(words, site.first_index + j, position, sample, site.key);
        value = KeepDrawn(value, words + skipped + j % 64, threshold);
      }
      group.Store(MulAdd(value, scale, rest != nullptr ? group.Load(rest + j) : Splat(0)), to + j);
    });
  }
}

void DropoutRows(const Tensor& y, const Tensor& x, const Tensor& residual, const DropoutSite& site, std::int64_t first,
                 std::int64_t last) {
  WithStorage(x.dtype, [&](auto zero) HWY_ATTR { DropoutRowsAs<decltype(zero)>(y, x, residual, site, first, last); });
}

}  // namespace lockstep::ops::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lockstep::ops::cpu {
namespace {

HWY_EXPORT(DropoutRows);

class CpuDropout final : public Dropout {
 public:
  explicit CpuDropout(const Context& context) : Dropout(context.observer), context_(context) {
    const ScopedIsa scope(context.isa);
    rows_ = &HWY_DYNAMIC_DISPATCH(DropoutRows);
  }

 private:
  void do_forward(const Tensor& y, const Tensor& x, const DropoutSite& site, const Tensor& residual) override {
    context_.deal(x.rows(), rows_per_tile(x.columns()),
                  [&](std::int64_t first, std::int64_t last) { rows_(y, x, residual, site, first, last); });
  }

  void do_backward(const Tensor& dx, const Tensor& dy, const DropoutSite& site) override { do_forward(dx, dy, site, {}); }

  Context context_;
  decltype(&HWY_STATIC_DISPATCH(DropoutRows)) rows_;
};

}  // namespace

std::unique_ptr<Dropout> make_dropout(const Context& context) { return std::make_unique<CpuDropout>(context); }

}  // namespace lockstep::ops::cpu
#endif
