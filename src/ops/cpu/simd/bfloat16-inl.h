// Conversions of the storage type bf16, included once per Highway target after lanes-inl.h. In integers, because the
// versions of Highway round differently.

#include <cstdint>

HWY_BEFORE_NAMESPACE();
namespace lockstep::ops::cpu::HWY_NAMESPACE {

/// Sixteen floats rounded to nearest even; NaN stays NaN.
HWY_INLINE void StoreBf16(const Sixteen& value, std::uint16_t* to) {
  const hn::Repartition<std::uint32_t, Floats> words;
  const hn::RebindToSigned<decltype(words)> integers;
  const hn::Rebind<std::uint16_t, Floats> halves;
  for (std::size_t k = 0; k < vector_count; ++k) {
    const auto bits = hn::BitCast(words, value.v[k]);
    const auto high = hn::ShiftRight<16>(bits);
    const auto even = hn::Add(hn::Set(words, 0x7FFF), hn::And(high, hn::Set(words, 1)));
    const auto rounded = hn::ShiftRight<16>(hn::Add(bits, even));
    const auto is_nan = hn::RebindMask(words, hn::Ne(value.v[k], value.v[k]));
    const auto result = hn::IfThenElse(is_nan, hn::Or(high, hn::Set(words, 0x40)), rounded);
    hn::StoreU(hn::DemoteTo(halves, hn::BitCast(integers, result)), halves, to + k * vector_lanes);
  }
}

HWY_INLINE Sixteen LoadBf16(const std::uint16_t* from) {
  const hn::Repartition<std::uint32_t, Floats> words;
  const hn::Rebind<std::uint16_t, Floats> halves;
  Sixteen result;
  for (std::size_t k = 0; k < vector_count; ++k) {
    const auto bits = hn::PromoteTo(words, hn::LoadU(halves, from + k * vector_lanes));
    result.v[k] = hn::BitCast(floats_tag, hn::ShiftLeft<16>(bits));
  }
  return result;
}

}  // namespace lockstep::ops::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
