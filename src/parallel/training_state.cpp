#include "parallel/training_state.h"

namespace lockstep::parallel {

void publish(TrainingState& state, ops::Elementwise& elementwise) {
  state.for_each({.changes = true}, [&](const StateRange& range) {
    if (range.published.data != range.master.data) elementwise.split(range.published, {}, range.master);
  });
}

}  // namespace lockstep::parallel
