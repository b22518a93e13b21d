#pragma once

// Paths among a run's settings: a resume finds them again from another working folder, and when the whole tree was moved.

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "app/settings/keys.h"
#include "app/settings/run_config.h"
#include "io/file.h"

namespace lockstep::settings {

/// The copy of a schedule's table in the run's folder.
inline constexpr std::string_view kept_schedule = "schedule.csv";

/// Names of the keys whose values are paths; that of parallel.schedule is one behind "file:".
std::span<const std::string_view> path_keys();

/// What a text typed for `key` stands for: of a path one with the user's folder for "~"; every other as it is.
std::string meant_path(const Key& key, std::string_view text);

/// The same settings with whole paths; a data set that is looked for in "data" keeps that folder.
app::RunConfig with_whole_paths(const app::RunConfig& config);

/// Mends the paths of settings that were read from the file of a run in `run`. What was moved together with the run's folder is
/// looked for beside it. log.dir becomes `run`. A schedule's table becomes the one that the run kept.
void find_kept_paths(app::RunConfig& config, const io::Path& run);

/// Why a resumed run cannot go on with the table that its settings name: it keeps another one.
std::vector<Problem> check_kept_schedule(const app::RunConfig& config, const io::Path& run);

}  // namespace lockstep::settings
