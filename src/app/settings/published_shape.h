#pragma once

// A run that starts from another program's weights has their shape: model.* follows from config.json.

#include <string>
#include <vector>

#include "app/run_config.h"

namespace lockstep::settings {

/// Whether the run starts from weights that another program published: train.init_from is their folder.
bool starts_from_published(const app::RunConfig& config);

/// Of the published model at `path`. Throws UserError for a model that cannot be read.
arch::ModelConfig published_shape(const std::string& path);

/// Sets what a published model's shape decides of model.*; its context counts where it is shorter than model.block_size.
void take_published_shape(app::RunConfig& config, const arch::ModelConfig& shape);

/// The settings of `config` that contradict the shape of the model at `path`.
std::vector<Problem> check_published_shape(const app::RunConfig& config, const arch::ModelConfig& shape, const std::string& path);

}  // namespace lockstep::settings
