// Vectors of floats from and to memory of a storage type. f32 stays as it is. bf16 is widened exactly when it is read. It is
// rounded to nearest even when it is written, NaN to NaN. Rounding is done in integers, because the versions of Highway round
// differently. The file is included once per Highway target, so it has no include guard; hwy/highway.h comes before it.

#include <cstdint>
#include <type_traits>

#include "tensor/bfloat16.h"

HWY_BEFORE_NAMESPACE();
namespace lockstep::ops::cpu::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

template <class D, class V = hn::Vec<D>>
HWY_INLINE V LoadAs(D d, const float* from) {
  return hn::LoadU(d, from);
}

template <class D, class V = hn::Vec<D>>
HWY_INLINE V LoadAs(D d, const BFloat16* from) {
  const hn::Repartition<std::uint32_t, D> words;
  const hn::Rebind<std::uint16_t, D> halves;
  const auto bits = hn::PromoteTo(words, hn::LoadU(halves, reinterpret_cast<const std::uint16_t*>(from)));
  return hn::BitCast(d, hn::ShiftLeft<16>(bits));
}

/// Loads the first `count` elements, at most as many as a vector has; other lanes are zero. Where HWY_MEM_OPS_MIGHT_FAULT is 1,
/// memory behind them may be touched.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V LoadPart(D d, const float* from, std::int64_t count) {
  return hn::MaskedLoad(hn::FirstN(d, static_cast<std::size_t>(count)), d, from);
}

template <class D, class V = hn::Vec<D>>
HWY_INLINE V LoadPart(D d, const BFloat16* from, std::int64_t count) {
  const hn::Repartition<std::uint32_t, D> words;
  const hn::Rebind<std::uint16_t, D> halves;
  const auto first = hn::FirstN(halves, static_cast<std::size_t>(count));
  const auto bits = hn::PromoteTo(words, hn::MaskedLoad(first, halves, reinterpret_cast<const std::uint16_t*>(from)));
  return hn::BitCast(d, hn::ShiftLeft<16>(bits));
}

/// Rounds to bf16, whose bits are in the low half of each word.
template <class D, class V = hn::Vec<D>>
HWY_INLINE hn::Vec<hn::Repartition<std::uint32_t, D>> BitsOfBf16(D, V value) {
  const hn::Repartition<std::uint32_t, D> words;
  const auto bits = hn::BitCast(words, value);
  const auto high = hn::ShiftRight<16>(bits);
  const auto even = hn::Add(hn::Set(words, 0x7FFF), hn::And(high, hn::Set(words, 1)));
  const auto is_nan = hn::RebindMask(words, hn::IsNaN(value));
  return hn::IfThenElse(is_nan, hn::Or(high, hn::Set(words, 0x40)), hn::ShiftRight<16>(hn::Add(bits, even)));
}

/// As many 16-bit integers as words W has lanes.
template <class W>
using HalvesOf = hn::Rebind<std::uint16_t, hn::DFromV<W>>;

/// The low halves of words that have nothing above them.
template <class W>
HWY_INLINE hn::Vec<HalvesOf<W>> LowHalves(W words) {
  const hn::Repartition<std::int32_t, hn::DFromV<W>> integers;
  return hn::DemoteTo(HalvesOf<W>(), hn::BitCast(integers, words));
}
template <class W, class T>
HWY_INLINE void StoreLowHalves(W words, T* to) {
  hn::StoreU(LowHalves(words), HalvesOf<W>(), reinterpret_cast<std::uint16_t*>(to));
}

template <class D, class V = hn::Vec<D>>
HWY_INLINE void StoreAs(D d, V value, float* to) {
  hn::StoreU(value, d, to);
}

template <class D, class V = hn::Vec<D>>
HWY_INLINE void StoreAs(D d, V value, BFloat16* to) {
  StoreLowHalves(BitsOfBf16(d, value), to);
}

/// StoreAs past the caches, to an address that is a multiple of the bytes stored. hwy::FlushStream comes behind the last one.
template <class D, class V = hn::Vec<D>>
HWY_INLINE void StreamAs(D d, V value, float* to) {
  hn::Stream(value, d, to);
}

template <class D, class V = hn::Vec<D>>
HWY_INLINE void StreamAs(D d, V value, BFloat16* to) {
  const hn::Rebind<std::uint16_t, D> halves;
  constexpr std::size_t least = 16;  // Highway stores no fewer bytes this way
  if constexpr (hn::MaxLanes(halves) * sizeof(std::uint16_t) >= least) {
    hn::Stream(LowHalves(BitsOfBf16(d, value)), halves, reinterpret_cast<std::uint16_t*>(to));
  } else {
    StoreAs(d, value, to);
  }
}

/// Joins fp32 numbers from their halves (tensor/bfloat16.h), and splits them.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V JoinHalves(D d, const BFloat16* high, const std::uint16_t* low) {
  const hn::Repartition<std::uint32_t, D> words;
  const hn::Repartition<std::int32_t, D> integers;
  const hn::Rebind<std::int16_t, D> halves;
  const auto difference = hn::PromoteTo(integers, hn::LoadU(halves, reinterpret_cast<const std::int16_t*>(low)));
  return hn::BitCast(d, hn::Add(hn::BitCast(words, LoadAs(d, high)), hn::BitCast(words, difference)));
}

template <class D, class V = hn::Vec<D>>
HWY_INLINE void StoreHighAs(D /*d*/, V value, BFloat16* high) {
  const hn::Repartition<std::uint32_t, D> words;
  const auto bits = hn::BitCast(words, value);
  const auto is_nan = hn::RebindMask(words, hn::IsNaN(value));
  const auto rounded = hn::ShiftRight<16>(hn::Add(bits, hn::Set(words, 0x8000)));
  StoreLowHalves(hn::IfThenElse(is_nan, hn::Or(hn::ShiftRight<16>(bits), hn::Set(words, 0x40)), rounded), high);
}

template <class D, class V = hn::Vec<D>>
HWY_INLINE void StoreLowAs(D /*d*/, V value, std::uint16_t* low) {
  const hn::Repartition<std::uint32_t, D> words;
  StoreLowHalves(hn::And(hn::BitCast(words, value), hn::Set(words, 0xFFFF)), low);
}

/// The values as they are read again after a store as S.
template <class S, class D, class V = hn::Vec<D>>
HWY_INLINE V AsStored(D d, V value) {
  if constexpr (std::is_same_v<S, BFloat16>) {
    return hn::BitCast(d, hn::ShiftLeft<16>(BitsOfBf16(d, value)));
  } else {
    return value;
  }
}

}  // namespace lockstep::ops::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
