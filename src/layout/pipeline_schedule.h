#pragma once

// What a stage does in a step, as data: a list of actions that the runner executes, and that can be checked and drawn
// without executing it.

#include <cstdint>
#include <vector>

#include "base/strong.h"

namespace lockstep::layout {

struct Action {
  enum class Kind : std::uint8_t { forward, backward } kind;
  Microbatch microbatch;
  friend bool operator==(const Action&, const Action&) = default;
};

/// One stage, `microbatches` times forward then backward: activations of one micro-batch are alive at a time.
std::vector<Action> one_stage_schedule(int microbatches);

/// Micro-batches whose activations are alive at once while `actions` run. Throws BrokenRule unless every micro-batch goes
/// forward once, then backward once, both in order.
int peak_live_microbatches(const std::vector<Action>& actions);

}  // namespace lockstep::layout
