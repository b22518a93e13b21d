#include "parallel/server/pushed_gradients.h"

#include "base/error.h"

namespace lockstep::parallel {

void PushedGradients::begin(int microbatches) {
  own_.begin(microbatches);
  microbatches_ = microbatches;
  closed_.assign(static_cast<std::size_t>(worker_.ranges().unit_count()), false);
  next_ = 0;
}

void PushedGradients::close(UnitIndex unit, Microbatch microbatch) {
  own_.close(unit, microbatch);
  if (microbatch.value + 1 < microbatches_) return;
  closed_[static_cast<std::size_t>(unit.value)] = true;
  if (options_.overlap) push_closed();
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
  options_.tied_parts_apart ? own_.finish_apart() : own_.finish();
  push_closed();
  if (const UnitIndex tied = worker_.ranges().tied(); tied.value >= 0) {
    worker_.push(tied, own_.shard(tied).gradient);
    if (options_.tied_parts_apart) worker_.push_rows(own_.tied_rows());
    ++next_;
  }
  ensure(next_ == worker_.ranges().order().size(), "every unit was pushed");
}

}  // namespace lockstep::parallel
