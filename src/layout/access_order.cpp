#include "layout/access_order.h"

#include <algorithm>

namespace lockstep::layout {

using Kind = Action::Kind;

std::int64_t Part::count_before(std::int64_t end) const {
  const std::int64_t before = std::clamp<std::int64_t>(end - elements.first, 0, elements.count);
  if (!strided()) return before;
  return before / row * columns.count + std::clamp<std::int64_t>(before % row - columns.first, 0, columns.count);
}

std::vector<Access> access_order(const std::vector<Action>& actions, const std::vector<ChunkParts>& parts) {
  std::vector<Access> order;
  Action last{Kind::backward, {}, -1};  // of those that go through blocks
  for (const Action& action : actions) {
    const ChunkParts& chunk = parts[static_cast<std::size_t>(action.chunk)];
    if (action.kind == Kind::forward) {
      for (const Part& part : chunk.forward) order.push_back({part, Pass::forward});
    } else if (action.kind == Kind::backward || action.kind == Kind::input_backward) {
      const bool at_once = action.kind == Kind::backward && last == Action{Kind::forward, action.microbatch, action.chunk};
      for (const Part& part : at_once ? chunk.backward_at_once : chunk.backward) order.push_back({part, Pass::backward});
    } else {
      continue;
    }
    last = action;
  }
  return order;
}

}  // namespace lockstep::layout
