#pragma once

// The model that a question is about.

#include <string>

#include "app/settings/run_config.h"
#include "arch/config.h"

namespace lockstep::app {

struct NamedModel {
  std::string name;     ///< as the user wrote it
  RunConfig config;     ///< with its model.*; the rest of it as the model's file has it
  std::string setting;  ///< "model=gpt2_xl", where that is enough to train it; else empty
  /// Where model.vocab_size is null. 50,304 is GPT-2's, rounded up to a multiple of 64, for a text that is not there.
  std::int64_t vocabulary = 50304;
  std::string note = {};  ///< a line on the vocabulary that was taken; empty where the model says its own
  arch::ModelConfig model() const;
};

/// A preset of model=, a recipe (.toml, its [model]), a config.json that another program published, or the folder of one. A run's
/// folder is its config.toml. A recipe without model.vocab_size has the vocabulary of its run or of its prepared text. Learned
/// positions and rotary ones go as far as `positions`; 0: as far as the model says. Throws UserError, with the names of presets,
/// for what is none of these.
NamedModel named_model(const std::string& name, std::int64_t positions);

}  // namespace lockstep::app
