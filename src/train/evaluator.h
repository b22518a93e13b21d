#pragma once

// Loss on held-out (or training) text.

#include "data/loader.h"
#include "train/engine.h"

namespace lockstep::train {

struct Evaluation {
  double loss = 0;  ///< sum of token losses over their number
  std::int64_t tokens = 0;
};

/// Throws UserError when an evaluation on `file` counted no target: its loss mask left none.
void demand_targets(std::int64_t targets, const data::TokenFile& file);

/// All batches of `reader` through the engine's current weights, divided among the ranks, of which each makes as many passes; the
/// result is the same on all of them and for any number of them. Throws UserError when none of their targets counts. Collective.
Evaluation evaluate(Engine& engine, data::WindowSource& windows);

}  // namespace lockstep::train
