#include "checkpoint/held_unit.h"

#include <algorithm>

namespace lockstep::checkpoint {

std::vector<LogicalTensor> tensors_of(std::span<const layout::Unit> units, DType type, std::span<const std::string> suffixes) {
  std::vector<LogicalTensor> table;
  for (const layout::Unit& unit : units) {
    for (const layout::PlacedParameter& placed : unit.parameters) {
      for (const std::string& suffix : suffixes) table.push_back({placed.info.name + suffix, placed.info.shape, type});
    }
  }
  return table;
}

std::vector<HeldTensor> hold(const layout::Unit& unit, layout::Range range, const Tensor& values, std::string_view suffix) {
  ensure(values.elements() == range.count, "the values are those of the range");
  std::vector<HeldTensor> all;
  for (const layout::PlacedParameter& placed : unit.parameters) {
    const std::int64_t begin = std::max(range.first, placed.offset);
    const std::int64_t end = std::min(range.end(), placed.offset + placed.shape().elements());
    if (begin >= end) continue;
    HeldTensor held{{placed.info.name + std::string(suffix), placed.info.shape, values.dtype}, {}};
    for (const layout::Rectangle& part : placed.shard.rectangles({begin - placed.offset, end - begin})) {
      const Tensor flat = values.flat(placed.offset + part.local - range.first, part.rows * part.columns);
      const bool run = part.rows == 1;
      held.ranges.push_back({part.global, run ? flat : flat.reshape(Shape{part.rows, part.columns}), run ? 0 : part.stride,
                             part.owned && unit.owned});
    }
    all.push_back(std::move(held));
  }
  return all;
}

}  // namespace lockstep::checkpoint
