#pragma once

// The model and the length of a run whose settings name neither: what this machine trains in a few minutes.

#include <cstdint>
#include <string>
#include <vector>

#include "app/settings/run_config.h"
#include "app/start/session.h"

namespace lockstep::app {

/// What a choice follows from.
struct ChoiceFacts {
  std::int64_t train_tokens = 0;
  std::int64_t val_tokens = 0;
  std::int64_t vocabulary = 0;
  double flops_per_second = 0;          ///< of all ranks together, in training steps
  std::int64_t sequences_per_step = 1;  ///< times model.batch_size: gradient accumulation and replicas
  double minutes = 3;
};

struct ChosenRun {
  std::vector<std::string> settings;  ///< words, "model.n_layer=4"
  std::string line;                   ///< what a person reads of it
};

/// The widest of a few GPT shapes that sees at least three tokens a parameter in that time. The run is shorter where the time
/// would show it the text more than 40 times. Its evaluations read at most 5 % of its tokens.
ChosenRun choose_run(const ChoiceFacts& facts);

/// The settings of the least choice: every other one has multiples of its sizes, so that a layout that divides them divides all.
std::vector<std::string> least_choice();

/// The vocabulary of a run's text, which may not be prepared yet.
std::int64_t known_vocabulary(const RunConfig& config);

/// The choice of rank 0, which measures its machine, for all ranks. Collective.
ChosenRun choose_together(const RunConfig& config, double minutes, Session& session);

}  // namespace lockstep::app
