#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "comm/add.cpp"
#include <hwy/foreach_target.h>
// clang-format off
#include <hwy/highway.h>
// clang-format on

#include "comm/add.h"

HWY_BEFORE_NAMESPACE();
namespace lockstep::comm::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

template <class Tag>
void Step(Tag tag, const float* left, const float* right, float divisor, std::span<std::byte* const> destinations,
          std::int64_t skipped, std::int64_t i) {
  auto sum = hn::Add(hn::LoadU(tag, left + i), hn::LoadU(tag, right + i));
  if (divisor != 1.0F) sum = hn::Div(sum, hn::Set(tag, divisor));
  for (std::byte* to : destinations) hn::StoreU(sum, tag, reinterpret_cast<float*>(to) + skipped + i);
}

void Add(const float* left, const float* right, float divisor, std::span<std::byte* const> destinations, std::int64_t skipped,
         std::int64_t count) {
  const hn::ScalableTag<float> tag;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(tag));
  std::int64_t i = 0;
  for (; i + lanes <= count; i += lanes) Step(tag, left, right, divisor, destinations, skipped, i);
  for (; i < count; ++i) Step(hn::CappedTag<float, 1>(), left, right, divisor, destinations, skipped, i);
}

}  // namespace lockstep::comm::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lockstep::comm {

HWY_EXPORT(Add);

void add(const float* left, const float* right, float divisor, std::span<std::byte* const> destinations, std::int64_t skipped,
         std::int64_t count) {
  HWY_DYNAMIC_DISPATCH(Add)(left, right, divisor, destinations, skipped, count);
}

}  // namespace lockstep::comm
#endif
