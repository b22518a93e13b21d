#include "layout/pipeline_schedule.h"

#include <algorithm>

#include "base/error.h"

namespace lockstep::layout {

std::vector<Action> one_stage_schedule(int microbatches) {
  ensure(microbatches >= 1, "a step has at least one micro-batch");
  std::vector<Action> actions;
  for (int m = 0; m < microbatches; ++m) {
    actions.push_back({Action::Kind::forward, Microbatch{m}});
    actions.push_back({Action::Kind::backward, Microbatch{m}});
  }
  return actions;
}

int peak_live_microbatches(const std::vector<Action>& actions) {
  int forwards = 0;
  int backwards = 0;
  int peak = 0;
  for (const Action& action : actions) {
    int& next = action.kind == Action::Kind::forward ? forwards : backwards;
    ensure(action.microbatch.value == next, "micro-batches go in order");
    ++next;
    ensure(backwards <= forwards, "a micro-batch goes forward before it goes backward");
    peak = std::max(peak, forwards - backwards + (action.kind == Action::Kind::backward ? 1 : 0));
  }
  ensure(forwards == backwards, "every micro-batch goes forward and backward");
  return peak;
}

}  // namespace lockstep::layout
