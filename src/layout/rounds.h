#pragma once

// How the ranks of a group share things that each take a pass through the model. They go in rounds. All ranks make the same
// number of rounds, because a pass may need all ranks.

#include <algorithm>
#include <cstdint>

#include "base/error.h"

namespace lockstep::layout {

struct Rounds {
  std::int64_t things = 0;
  int ranks = 1;

  std::int64_t count() const { return things / ranks + (things % ranks > 0 ? 1 : 0); }

  /// What a rank works on in one round.
  struct Turn {
    std::int64_t thing = 0;
    bool counts = true;  ///< false: none was left, so the rank repeats the last one, and what comes of it is dropped
  };
  /// Rank r has things r, r + ranks, r + 2 ranks, ...
  Turn turn(std::int64_t round, int rank) const {
    ensure(round >= 0 && round < count() && rank >= 0 && rank < ranks, "a round and a rank are among theirs");
    const std::int64_t thing = round * ranks + rank;
    return {std::min(thing, things - 1), thing < things};
  }
};

}  // namespace lockstep::layout
