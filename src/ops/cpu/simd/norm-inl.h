// The gains of a norm, included once per Highway target after lanes-inl.h.

#include "ops/norm.h"

HWY_BEFORE_NAMESPACE();
namespace lockstep::ops::cpu::HWY_NAMESPACE {

/// The factors of the 16 gains from `gain` on.
template <class S, class Group>
HWY_INLINE Sixteen NormGains(const Group& group, const S* gain, NormForm form) {
  const Sixteen stored = group.Load(gain);
  return form == NormForm::rms_unit_offset ? Add(stored, Splat(1)) : stored;
}

}  // namespace lockstep::ops::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
