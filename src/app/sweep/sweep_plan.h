#pragma once

// What a sweep tries: a few settings and their values, and all combinations of these.

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "app/settings/run_config.h"
#include "base/error.h"

namespace lockstep::app {

/// A setting, a bundle of them (or "ranks", or "layout") and the values that it takes, as they are typed.
struct SweepAxis {
  std::string key;
  std::vector<std::string> values;
};

/// Words that name several values, KEY=a,b,c or KEY=a;b;c or KEY=lo:hi:step, become axes. The others are settings of all runs. A
/// colon makes no range for bundles and for keys that take texts. sweep_words() adds what is wrong to `problems`.
struct SweepWords {
  std::vector<SweepAxis> axes;
  std::vector<std::string> fixed;
};
SweepWords sweep_words(const std::vector<std::string>& words, std::vector<Problem>& problems);
/// Layouts with semicolons between, as one more axis.
void add_layouts(SweepWords& words, const std::string& layouts, std::vector<Problem>& problems);

/// One combination of values.
struct SweepPoint {
  std::vector<std::string> words;      ///< settings, as key=value; without ranks
  std::string label;                   ///< "model.batch_size=4 ranks=2"
  std::int64_t ranks = 0;              ///< 0: nothing says; as many as its layout asks for
  RunConfig config = {};               ///< of its runs, but for their folder
  RunConfig recipe = {};               ///< as the user asks for it, without what is the sweep's own
  bool draws_seed = false;             ///< train.seed=random: config has one that was drawn
  std::vector<std::string> idle = {};  ///< settings that change nothing in it, with the reasons
};

struct SweepRequest {
  SweepWords words;
  std::vector<std::string> files;     ///< --config
  std::optional<std::int64_t> ranks;  ///< where no axis says
  std::int64_t steps = 0;             ///< of the point with most tokens a step: the others see as many tokens
};

/// A combination that cannot be.
struct LeftOut {
  std::string label;
  std::vector<Problem> why;
};
struct SweepPlan {
  std::vector<SweepPoint> points;
  std::vector<LeftOut> left_out;
};
/// All combinations, the first axis slowest. Throws UserError where a value is none of its setting's, and with all that is wrong
/// where no combination can be.
SweepPlan sweep_points(const SweepRequest& request);

}  // namespace lockstep::app
