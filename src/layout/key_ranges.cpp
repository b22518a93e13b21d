#include "layout/key_ranges.h"

#include <algorithm>

#include "base/error.h"

namespace lockstep::layout {

KeyRanges::KeyRanges(const std::vector<Unit>& units, const std::vector<UnitIndex>& order, UnitIndex tied, int workers,
                     int servers)
    : units_(units), tied_(tied), workers_(workers), servers_(servers) {
  ensure(workers >= 1 && servers >= 1, "there is a worker and a server");
  ensure(order.size() == units.size(), "every unit has its place in the order");
  for (const UnitIndex unit : order) {
    if (unit != tied) order_.push_back(unit);
  }
  if (tied.value >= 0) order_.push_back(tied);
}

KeyRanges::Cells KeyRanges::cells(UnitIndex unit, int server) const {
  const int place = (server + unit.value) % servers_;
  return {place * workers_ / servers_, (place + 1) * workers_ / servers_};
}

Range KeyRanges::of(UnitIndex unit, int server) const {
  const Cells held = cells(unit, server);
  if (held.first == held.last) return {0, 0};
  const Range first = cell(unit, held.first), last = cell(unit, held.last - 1);
  return {first.first, last.first + last.count - first.first};
}

Range KeyRanges::tied(int server) const {
  if (tied_.value < 0) return {0, 0};
  const Range held = of(tied_, server);
  const std::int64_t end = unit(tied_).parameters.front().shape().elements();
  return {held.first, std::clamp<std::int64_t>(end - held.first, 0, held.count)};
}

}  // namespace lockstep::layout
