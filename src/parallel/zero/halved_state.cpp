#include "parallel/zero/halved_state.h"

#include <algorithm>
#include <utility>

namespace lockstep::parallel {

HalvedState::HalvedState(const ResidentParts& parts, const Tensor& whole, ops::Elementwise& elementwise)
    : ResidentState(parts), whole_(whole), elementwise_(elementwise), slots_(parts.slots.names.size()) {}

// Who watches changes wants whole masters.
void HalvedState::visit(const Use& use, Call call, void* body) {
  if (!use.weights || (use.halves && !(use.changes && watched()))) return visit_memory(use, call, body);
  for (std::size_t u = 0; u < units().size(); ++u) {
    const UnitIndex unit{static_cast<int>(u)};
    const layout::Range all = held(unit);
    if (!is_visited(unit, use)) continue;
    if (!units()[u].trained && all.count > 0) call(body, range_in_memory(unit, use, all));
    if (!units()[u].trained) continue;
    for (std::int64_t first = all.first; first < all.end(); first += whole_.elements()) {
      const layout::Range part{first, std::min(whole_.elements(), all.end() - first)};
      StateRange range = range_in_memory(unit, use, part);
      range.master = whole_.flat(0, part.count);
      elementwise_.join(range.master, range.published, range.low);
      if (use.slots && has_slots()) {
        std::ranges::transform(slots_of(unit), slots_.begin(),
                               [&](const Tensor& slot) { return slot.flat(first - all.first, part.count); });
        range.slots = slots_;
        range.own_slots = range.own;
      }
      const Tensor low = std::exchange(range.low, {});
      call(body, range);
      if (use.changes) elementwise_.split(range.published, low, range.master);
    }
  }
  if (use.changes) changed(use);
}

}  // namespace lockstep::parallel
