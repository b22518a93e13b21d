#pragma once

// A run that starts from another program's weights has their shape: model.* follows from config.json.

#include <string>
#include <vector>

#include "app/run_config.h"

namespace lockstep::settings {

/// Whether the run starts from weights that another program published: train.init_from is their folder.
bool starts_from_published(const app::RunConfig& config);

/// Sets what the published model at `path` decides of model.*; its context counts where it is shorter than model.block_size.
/// Throws UserError for a model that cannot be read.
void take_published_shape(app::RunConfig& config, const std::string& path);

/// The settings of `config` that contradict the model at `path`.
std::vector<Problem> check_published_shape(const app::RunConfig& config, const std::string& path);

}  // namespace lockstep::settings
