#pragma once

// How tokens are drawn, as the command line says it: what `generate` and `chat` share.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "app/cli/command_line.h"
#include "app/published/text_habits.h"
#include "base/error.h"
#include "base/log.h"
#include "train/sample.h"

namespace lockstep::app {

struct SamplingOptions {
  // None: as the model's generation_config.json says, else the usual ones.
  std::optional<double> temperature, top_p;
  std::optional<std::int64_t> top_k;
  std::int64_t seed = 1337;

  /// `seed_meaning`: what the same seed gives.
  void declare(CommandLine& line, const std::string& seed_meaning);
  /// Adds what is wrong with the options that were parsed.
  void check(std::vector<Problem>& problems) const;
  /// What the user said, else what the model's publisher did, which is logged ("--top-k 20"), else the usual.
  train::SampleOptions sampling(const TextHabits& habits, Log& log) const;
};

}  // namespace lockstep::app
