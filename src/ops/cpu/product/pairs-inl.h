// How a word of each operand is added to a chain, included once per Highway target (so it has no include guard) after
// hwy/highway.h. A word is a float, or two bf16 of consecutive k, the first in its low half.

#include <cmath>
#include <cstddef>
#include <cstdint>

HWY_BEFORE_NAMESPACE();
namespace lockstep::ops::cpu::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

/// Floats: one fused multiply-add.
struct AddFloats {
  template <class D, class V = hn::Vec<D>>
  static HWY_INLINE V add(D, V a, V b, V chain) {
    return hn::MulAdd(a, b, chain);
  }
};

/// A fused multiply-add; the baseline's multiply-add rounds twice.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V Fused(D d, V a, V b, V chain) {
  constexpr std::size_t lanes = hn::MaxLanes(D());
  if constexpr (lanes > 4) {
    return hn::MulAdd(a, b, chain);
  } else {
    HWY_ALIGN float x[lanes], y[lanes], sum[lanes];
    hn::Store(a, d, x);
    hn::Store(b, d, y);
    hn::Store(chain, d, sum);
    for (std::size_t i = 0; i < lanes; ++i) sum[i] = std::fma(x[i], y[i], sum[i]);
    return hn::Load(d, sum);
  }
}

/// The elements of words of two bf16.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V FirstOf(D d, V word) {
  return hn::BitCast(d, hn::ShiftLeft<16>(hn::BitCast(hn::Repartition<std::uint32_t, D>(), word)));
}
template <class D, class V = hn::Vec<D>>
HWY_INLINE V SecondOf(D d, V word) {
  const hn::Repartition<std::uint32_t, D> bits;
  return hn::BitCast(d, hn::And(hn::BitCast(bits, word), hn::Set(bits, 0xFFFF0000U)));
}

/// Pairs: what vdpbf16ps is documented to do, while denormals count as zero (FlushedDenormals). The second element comes first.
struct AddPairsEmulated {
  template <class D, class V = hn::Vec<D>>
  static HWY_INLINE V add(D d, V a, V b, V chain) {
    return Fused(d, FirstOf(d, a), FirstOf(d, b), Fused(d, SecondOf(d, a), SecondOf(d, b), chain));
  }
};

/// Pairs: the instruction itself, which Highway's AVX3 does not include.
struct AddPairs {
  template <class D, class V = hn::Vec<D>>
  static HWY_INLINE V add(D, V a, V b, V chain) {
    asm("vdpbf16ps %2, %1, %0" : "+v"(chain.raw) : "v"(b.raw), "v"(a.raw));
    return chain;
  }
};

}  // namespace lockstep::ops::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
