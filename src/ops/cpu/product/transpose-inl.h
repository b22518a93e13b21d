// Transposition in registers, included once per Highway target (so it has no include guard) after hwy/highway.h.

#include <cstdint>

HWY_BEFORE_NAMESPACE();
namespace lockstep::ops::cpu::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

/// columns[i], i < 4: element k + i of as many rows as a vector has lanes (4 or 8).
template <class D, class V = hn::Vec<D>>
HWY_INLINE void LoadFourColumns(D d, const float* const* rows, std::int64_t k, V* columns) {
  const hn::RepartitionToWide<hn::Rebind<std::uint32_t, D>> dw;
  const hn::CappedTag<float, 4> d4;
  V v[4];
  HWY_UNROLL(4)
  for (int i = 0; i < 4; ++i) {
    if constexpr (hn::MaxLanes(D()) == 8) {
      v[i] = hn::Combine(d, hn::LoadU(d4, rows[i + 4] + k), hn::LoadU(d4, rows[i] + k));
    } else {
      v[i] = hn::LoadU(d, rows[i] + k);
    }
  }
  const auto low01 = hn::BitCast(dw, hn::InterleaveLower(d, v[0], v[1])),
             low23 = hn::BitCast(dw, hn::InterleaveLower(d, v[2], v[3]));
  const auto up01 = hn::BitCast(dw, hn::InterleaveUpper(d, v[0], v[1])),
             up23 = hn::BitCast(dw, hn::InterleaveUpper(d, v[2], v[3]));
  columns[0] = hn::BitCast(d, hn::InterleaveLower(dw, low01, low23));
  columns[1] = hn::BitCast(d, hn::InterleaveUpper(dw, low01, low23));
  columns[2] = hn::BitCast(d, hn::InterleaveLower(dw, up01, up23));
  columns[3] = hn::BitCast(d, hn::InterleaveUpper(dw, up01, up23));
}

}  // namespace lockstep::ops::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
