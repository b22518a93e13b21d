// How a word of each operand is added to a chain, included once per Highway target (so it has no include guard) after
// hwy/highway.h. A word is a float, or two bf16 of consecutive k, the first in its low half.

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

/// Pairs: what vdpbf16ps is documented to do, while denormals count as zero (FlushedDenormals). The second element comes first.
struct AddPairsEmulated {
  template <class D, class V = hn::Vec<D>>
  static HWY_INLINE V add(D d, V a, V b, V chain) {
    chain = hn::MulAdd(second(d, a), second(d, b), chain);
    return hn::MulAdd(first(d, a), first(d, b), chain);
  }

 private:
  template <class D, class V = hn::Vec<D>>
  static HWY_INLINE V first(D d, V word) {
    return hn::BitCast(d, hn::ShiftLeft<16>(hn::BitCast(hn::Repartition<std::uint32_t, D>(), word)));
  }
  template <class D, class V = hn::Vec<D>>
  static HWY_INLINE V second(D d, V word) {
    const hn::Repartition<std::uint32_t, D> bits;
    return hn::BitCast(d, hn::And(hn::BitCast(bits, word), hn::Set(bits, 0xFFFF0000U)));
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
