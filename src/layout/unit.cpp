#include "layout/unit.h"

#include <algorithm>

#include "base/checked.h"

namespace lockstep::layout {

Unit make_unit(std::string name, std::vector<ParameterInfo> parameters) {
  Unit unit{.name = std::move(name), .parameters = {}, .decayed = 0, .elements = 0};
  std::int64_t offset = 0;
  for (const bool decays : {true, false}) {
    for (ParameterInfo& parameter : parameters) {
      if (parameter.decay != decays) continue;
      const std::int64_t size = round_up(parameter.shape.elements(), tensor_alignment);
      unit.parameters.push_back({std::move(parameter), offset});
      offset += size;
    }
    if (decays) unit.decayed = offset;
  }
  unit.elements = round_up(offset, cut);
  return unit;
}

Range range_of(const Unit& unit, int part, int parts) {
  ensure(parts >= 1 && part >= 0 && part < parts, "a part lies among its parts");
  const std::int64_t size = round_up(div_up(unit.elements, parts), cut);
  const std::int64_t first = std::min(unit.elements, size * part);
  return {first, std::min(size, unit.elements - first)};
}

}  // namespace lockstep::layout
