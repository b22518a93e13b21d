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
  arch::ModelConfig model() const;
};

/// A preset of model=, a recipe (.toml, its [model]), a config.json that another program published, or the folder of one. Learned
/// positions and rotary ones go as far as `positions`; 0: as far as the model says. Throws UserError, with the names of presets,
/// for what is none of these.
NamedModel named_model(const std::string& name, std::int64_t positions);

}  // namespace lockstep::app
