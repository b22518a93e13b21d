#pragma once

// Loss on held-out (or training) text.

#include "data/loader.h"
#include "train/engine.h"

namespace lockstep::train {

struct Evaluation {
  double loss = 0;  ///< sum of token losses over their number
  std::int64_t tokens = 0;
};

/// All batches of `reader` through the engine's current weights, divided among the ranks; the result is the same on all of them
/// and for any number of them. Collective.
Evaluation evaluate(Engine& engine, data::WindowReader& reader);

}  // namespace lockstep::train
