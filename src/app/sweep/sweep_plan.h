#pragma once

// What a sweep tries: a few settings and their values, and all combinations of these.

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "app/settings/run_config.h"
#include "base/error.h"

namespace lockstep::app {

/// A setting (or "ranks") and the values that it takes, as they are typed.
struct SweepAxis {
  std::string key;
  std::vector<std::string> values;
};

/// Words that name several values, KEY=a,b,c or KEY=a;b;c or KEY=lo:hi:step, become axes; the others are settings of all runs. Of
/// a key that takes texts a colon is no range. Adds what is wrong to `problems`.
struct SweepWords {
  std::vector<SweepAxis> axes;
  std::vector<std::string> fixed;
};
SweepWords sweep_words(const std::vector<std::string>& words, std::vector<Problem>& problems);

/// One combination of values.
struct SweepPoint {
  std::vector<std::string> words;  ///< settings, as key=value; without ranks
  std::string label;               ///< "model.batch_size=4 ranks=2"
  std::int64_t ranks = 1;
  RunConfig config = {};               ///< of its runs, but for their folder
  bool draws_seed = false;             ///< train.seed=random: config has one that was drawn
  std::vector<std::string> idle = {};  ///< settings that change nothing in it, with the reasons
};

struct SweepRequest {
  SweepWords words;
  std::vector<std::string> files;  ///< --config
  std::int64_t ranks = 1;          ///< where no axis says
  std::int64_t steps = 0;
};
/// All combinations, the first axis slowest. Throws UserError with all problems of all of them.
std::vector<SweepPoint> sweep_points(const SweepRequest& request);

}  // namespace lockstep::app
