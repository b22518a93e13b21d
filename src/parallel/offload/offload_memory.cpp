#include "parallel/offload/offload_memory.h"

#include <algorithm>

#include "base/checked.h"

namespace lockstep::parallel {

using Kind = OffloadColumn::Kind;

std::vector<int> declare_units(Spill& spill, const std::vector<layout::Unit>& units, const layout::StateCut& cut,
                               const Spill::Needs& like, bool trained_alone) {
  std::vector<int> numbers;
  for (const layout::Unit& unit : units) {
    const layout::Range held = cut.held(unit);
    Spill::Needs needs = like;
    needs.of = unit.name;
    needs.first = held.first;
    needs.elements = held.count;
    const bool none = held.count == 0 || (trained_alone && !unit.trained);
    numbers.push_back(none ? -1 : spill.declare(needs));
  }
  return numbers;
}

void OffloadMemory::declare(Arena& device, const std::vector<layout::Unit>& units, const layout::StateCut& of, const Needs& needs,
                            std::vector<OffloadColumn> others, const OffloadOptions& options, Spill& elsewhere) {
  spill = &elsewhere;
  cut = of;
  columns = std::move(others);
  const auto add = [&](Kind kind, std::size_t slot, const char* what, DType type) {
    const Spill::Needs like{.tier = needs.tier, .what = what, .of = {}, .type = type, .range = options.range()};
    columns.push_back({kind, slot, type, declare_units(elsewhere, units, cut, like, true)});
  };
  if (needs.tier != layout::Tier::device) {
    if (needs.masters) add(Kind::masters, 0, "master weights", DType::f32);
    for (std::size_t s = 0; s < static_cast<std::size_t>(needs.slots); ++s)
      add(Kind::slot, s, "optimizer slots", needs.slot_type);
  }
  if (!used()) return;
  std::int64_t largest = 0;
  for (std::size_t u = 0; u < units.size(); ++u) {
    const layout::Range held = cut.held(units[u]);
    for (std::int64_t first = held.first; first < held.end(); first += options.range()) {
      records.push_back({UnitIndex{static_cast<int>(u)}, {first, std::min(options.range(), held.end() - first)}});
      largest = std::max(largest, records.back().range.count);
    }
  }
  std::int64_t bytes = 0;
  for (OffloadColumn& column : columns) {
    column.first = bytes;
    bytes += Spill::bytes_of(largest, column.type);
  }
  for (Mirror& buffer : buffers) Spill::declare(device, buffer, "buffers of offloaded state", bytes);
}

}  // namespace lockstep::parallel
