#pragma once

// Settings from a TOML file: one table per group, the same keys as on the command line.
//
//   [model]
//   n_layer = 6

#include <string>
#include <string_view>
#include <vector>

#include "app/settings/run_config.h"

namespace lockstep::app {

/// What files of to_toml() begin with.
inline constexpr std::string_view settings_file_start = "# The settings of a run.";

/// Reads the file into `config`, on top of what is there. Returns every problem with its file and line. Problems are syntax
/// errors, unknown groups or keys (the nearest is named), wrong types, values out of range, and a file that cannot be read.
std::vector<Problem> read_config_file(const std::string& path, RunConfig& config);

/// The same for TOML text; `what` stands for the file's name in the messages.
std::vector<Problem> read_config_text(std::string_view text, std::string_view what, RunConfig& config);

}  // namespace lockstep::app
