// Transposition in registers, included once per Highway target (so it has no include guard) after hwy/highway.h.

#include <bit>
#include <cstdint>
#include <type_traits>

#include "tensor/bfloat16.h"

HWY_BEFORE_NAMESPACE();
namespace lockstep::ops::cpu::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

/// How many k four words of a row hold.
template <class T>
inline constexpr int word_depth = 16 / static_cast<int>(sizeof(T));

/// Loads sixteen bytes, four words, from each of rows[j] + k. Lane j of words[i] gets word i of row j. There are as many rows as
/// a vector has lanes (4, 8 or 16).
template <class D, class T, class V = hn::Vec<D>>
HWY_INLINE void LoadFourWords(D d, const T* const* rows, std::int64_t k, V* words) {
  const hn::RepartitionToWide<hn::Rebind<std::uint32_t, D>> dw;
  const hn::CappedTag<float, 4> d4;
  const hn::CappedTag<std::uint8_t, 16> bytes;
  const auto load = [&](const T* row)
                        HWY_ATTR { return hn::BitCast(d4, hn::LoadU(bytes, reinterpret_cast<const std::uint8_t*>(row + k))); };
  V v[4];
  HWY_UNROLL(4)
  for (int i = 0; i < 4; ++i) {
    if constexpr (hn::MaxLanes(D()) == 16) {
      const hn::Half<D> half;
      v[i] = hn::Combine(d, hn::Combine(half, load(rows[i + 12]), load(rows[i + 8])),
                         hn::Combine(half, load(rows[i + 4]), load(rows[i])));
    } else if constexpr (hn::MaxLanes(D()) == 8) {
      v[i] = hn::Combine(d, load(rows[i + 4]), load(rows[i]));
    } else {
      v[i] = load(rows[i]);
    }
  }
  const auto low01 = hn::BitCast(dw, hn::InterleaveLower(d, v[0], v[1])),
             low23 = hn::BitCast(dw, hn::InterleaveLower(d, v[2], v[3]));
  const auto up01 = hn::BitCast(dw, hn::InterleaveUpper(d, v[0], v[1])),
             up23 = hn::BitCast(dw, hn::InterleaveUpper(d, v[2], v[3]));
  words[0] = hn::BitCast(d, hn::InterleaveLower(dw, low01, low23));
  words[1] = hn::BitCast(d, hn::InterleaveUpper(dw, low01, low23));
  words[2] = hn::BitCast(d, hn::InterleaveLower(dw, up01, up23));
  words[3] = hn::BitCast(d, hn::InterleaveUpper(dw, up01, up23));
}

/// An element of each word: the word itself for f32, or bf16 number `half` (0 or 1, in order of k), widened.
template <class T, int half, class D, class V = hn::Vec<D>>
HWY_INLINE V ElementOf(D d, V word) {
  const hn::Repartition<std::uint32_t, D> bits;
  if constexpr (std::is_same_v<T, float>) {
    return word;
  } else if constexpr (half == 0) {
    return hn::BitCast(d, hn::ShiftLeft<16>(hn::BitCast(bits, word)));
  } else {
    return hn::BitCast(d, hn::And(hn::BitCast(bits, word), hn::Set(bits, 0xFFFF0000U)));
  }
}

/// Makes words of two bf16: first[j] in the low half, second[j] in the high one.
template <class D>
HWY_INLINE hn::Vec<D> LoadPairs(D d, const BFloat16* first, const BFloat16* second) {
  const hn::Repartition<std::uint32_t, D> words;
  const hn::Rebind<std::uint16_t, D> halves;
  const auto load = [&](const BFloat16* from) HWY_ATTR {
    return hn::PromoteTo(words, hn::LoadU(halves, reinterpret_cast<const std::uint16_t*>(from)));
  };
  return hn::BitCast(d, hn::Or(load(first), hn::ShiftLeft<16>(load(second))));
}
inline float WordOf(BFloat16 first, BFloat16 second) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(second) << 16U | static_cast<std::uint32_t>(first));
}

/// An element as a float.
inline float Widened(float x) { return x; }
inline float Widened(BFloat16 x) { return to_float(x); }

}  // namespace lockstep::ops::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
