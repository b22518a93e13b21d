#pragma once

// A run that starts from the weights in a folder has their shape. It sets `model.*`, and comes from a checkpoint's manifest, or
// from the config.json of a model that another program published.

#include <optional>
#include <string>
#include <vector>

#include "app/settings/run_config.h"

namespace lockstep::settings {

struct SourceShape {
  std::string folder;  ///< train.init_from
  bool published = false;
  arch::ModelConfig model;  ///< with the adapters of adapter.init_from
};

/// Whether the run starts from weights that another program published: train.init_from is their folder.
bool starts_from_published(const app::RunConfig& config);

/// The shape of the model in the folder that train.init_from names. Nothing where it names none, or the folder is not there.
/// Throws UserError for a model that cannot be read.
std::optional<SourceShape> source_shape(const app::RunConfig& config);

/// Sets what the shape decides of model.*; a published model's context counts where it is shorter than model.block_size.
void take_shape(app::RunConfig& config, const SourceShape& source);

/// The settings of `config` that contradict the shape. Less context than the model has learned positions for is allowed.
std::vector<Problem> check_shape(const app::RunConfig& config, const SourceShape& source);

/// That the table of positions is cropped, for the log; empty where it is not.
std::string cropping_note(const app::RunConfig& config, const SourceShape& source);

}  // namespace lockstep::settings
