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
