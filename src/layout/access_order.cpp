#include "layout/access_order.h"

namespace lockstep::layout {

using Kind = Action::Kind;

std::vector<Access> access_order(const std::vector<Action>& actions, const std::vector<ChunkParts>& parts) {
  std::vector<Access> order;
  for (const Action& action : actions) {
    const ChunkParts& chunk = parts[static_cast<std::size_t>(action.chunk)];
    if (action.kind == Kind::forward) {
      for (const Part& part : chunk.forward) order.push_back({part, Pass::forward});
    }
    if (action.kind == Kind::backward || action.kind == Kind::input_backward) {
      for (const Part& part : chunk.backward) order.push_back({part, Pass::backward});
    }
  }
  return order;
}

}  // namespace lockstep::layout
