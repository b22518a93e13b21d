#include "layout/access_order.h"

namespace lockstep::layout {

std::vector<Access> access_order(const std::vector<Action>& actions, const std::vector<UnitIndex>& forward,
                                 const std::vector<UnitIndex>& backward) {
  std::vector<Access> order;
  for (const Action& action : actions) {
    const bool goes_forward = action.kind == Action::Kind::forward;
    for (const UnitIndex unit : goes_forward ? forward : backward) {
      order.push_back({unit, goes_forward ? Pass::forward : Pass::backward});
    }
  }
  return order;
}

}  // namespace lockstep::layout
