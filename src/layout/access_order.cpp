#include "layout/access_order.h"

namespace lockstep::layout {

using Kind = Action::Kind;

std::vector<Access> access_order(const std::vector<Action>& actions, const std::vector<ChunkUnits>& units) {
  std::vector<Access> order;
  for (const Action& action : actions) {
    const ChunkUnits& chunk = units[static_cast<std::size_t>(action.chunk)];
    if (action.kind == Kind::forward) {
      for (const UnitIndex unit : chunk.forward) order.push_back({unit, Pass::forward});
    }
    if (action.kind == Kind::backward || action.kind == Kind::input_backward) {
      for (const UnitIndex unit : chunk.backward) order.push_back({unit, Pass::backward});
    }
  }
  return order;
}

}  // namespace lockstep::layout
