#pragma once

// What a run leaves about itself: its name, the files of its folder beside checkpoints and metrics, and what checkpoints carry.

#include <string>

#include "app/cli/command.h"
#include "app/settings/run_config.h"
#include "app/start/run_start.h"
#include "app/start/session.h"
#include "base/json.h"
#include "data/corpus.h"

namespace lockstep::app {

/// The run's name, the same on all ranks: the settings' name, on a resume the one that the run had, else its folder's.
std::string name_of_run(const RunConfig& config, const Start& start, const io::Path& folder);

/// As io::replace_file; its owner alone may read the file.
void replace_private_file(const io::Path& path, std::string_view content);

/// Writes the settings that repeat the run (TOML), those of this start (JSON, with the run's name), and the environment.
/// `arguments`: of `train`.
void write_run_files(const RunConfig& config, const std::string& name, const io::Path& folder, const Arguments& arguments);

/// The folder whose weights a run began with, by a manifest's `run`; empty where there was none, or it does not say.
std::string origin_of(const Json& run);

/// What a checkpoint carries so that it can be used without its run: settings, tokenizer and what ends a text. It also carries
/// the run's identity (identify_run), by which a resume knows the run again. `published`: published_of().
Json carried(const RunConfig& config, const Start& start, const std::string& name, const data::Corpus& corpus,
             const Json& published, const Json& identity);

}  // namespace lockstep::app
