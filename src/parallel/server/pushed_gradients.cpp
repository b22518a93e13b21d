#include "parallel/server/pushed_gradients.h"

#include "base/error.h"

namespace lockstep::parallel {

void PushedGradients::begin(int microbatches) {
  own_.begin(microbatches);
  microbatches_ = microbatches;
  closed_.assign(static_cast<std::size_t>(worker_.ranges().units()), false);
  next_ = 0;
}

void PushedGradients::close(UnitIndex unit, Microbatch microbatch) {
  own_.close(unit, microbatch);
  if (microbatch.value + 1 < microbatches_) return;
  closed_[static_cast<std::size_t>(unit.value)] = true;
  if (overlap_) push_closed();
}

void PushedGradients::push_closed() {
  const std::vector<UnitIndex>& order = worker_.ranges().order();
  while (next_ < order.size() && order[next_] != worker_.ranges().tied() &&
         closed_[static_cast<std::size_t>(order[next_].value)]) {
    worker_.push(order[next_], own_.shard(order[next_]).gradient);
    ++next_;
  }
}

void PushedGradients::finish() {
  own_.finish();
  push_closed();
  const std::size_t units = worker_.ranges().order().size();
  ensure(next_ + (worker_.ranges().tied().value >= 0 ? 1 : 0) == units, "every unit was pushed");
}

}  // namespace lockstep::parallel
