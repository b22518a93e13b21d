#include "layout/unit.h"

#include <algorithm>

#include "base/checked.h"

namespace lockstep::layout {

Unit make_unit(std::string name, std::vector<ParameterInfo> parameters, TensorRank tensor) {
  Unit unit{.name = std::move(name), .parameters = {}, .decayed = 0, .elements = 0};
  std::int64_t offset = 0;
  for (const bool decays : {true, false}) {
    for (ParameterInfo& parameter : parameters) {
      if (parameter.decay != decays) continue;
      Shard shard(parameter.shape, parameter.rule, tensor);
      const std::int64_t size = round_up(shard.shape().elements(), tensor_alignment);
      unit.parameters.push_back({std::move(parameter), offset, std::move(shard)});
      offset += size;
    }
    if (decays) unit.decayed = offset;
  }
  unit.elements = round_up(offset, cut);
  return unit;
}

Range range_of(const Unit& unit, int part, int parts) {
  const Range pieces = part_of(unit.elements / cut, part, parts);
  return {pieces.first * cut, pieces.count * cut};
}

std::vector<Range> owned_runs(const Unit& unit, Range range) {
  if (!unit.owned || range.count == 0) return {};
  std::vector<Range> runs;
  std::int64_t next = range.first;
  const auto add_until = [&](std::int64_t end) {
    if (end > next) runs.push_back({next, end - next});
  };
  for (const PlacedParameter& placed : unit.parameters) {
    const Range held = overlap({placed.offset, placed.shape().elements()}, range);
    if (held.count == 0) continue;
    for (const Rectangle& part : placed.shard.rectangles({held.first - placed.offset, held.count})) {
      if (part.owned) continue;
      const std::int64_t first = placed.offset + part.local;
      add_until(first);
      next = first + part.rows * part.columns;
    }
  }
  add_until(range.end());
  return runs;
}

std::vector<Range> gaps_of(const Unit& unit) {
  std::vector<Range> gaps;
  std::int64_t end = 0;
  const auto add = [&](std::int64_t next) {
    if (next > end) gaps.push_back({end, next - end});
  };
  for (const PlacedParameter& parameter : unit.parameters) {
    add(parameter.offset);
    end = parameter.offset + parameter.shape().elements();
  }
  add(unit.elements);
  return gaps;
}

}  // namespace lockstep::layout
