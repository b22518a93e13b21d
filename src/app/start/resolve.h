#pragma once

// From files and the command line to a RunConfig. Order: defaults, the DeepSpeed file that train.ds_config_path names, files,
// nanoGPT's, group=option, single settings in whichever grammar; each from left to right, so that a later one wins.

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "app/cli/command_line.h"
#include "app/settings/run_config.h"

namespace lockstep::settings {

struct Resolved {
  app::RunConfig config;
  std::vector<std::string> warnings, notes;  // for the log
  /// A line for each setting that was asked for and changes nothing, with the reason: of words every one, of files and bundles
  /// those with another value than without them.
  std::vector<std::string> idle = {};
  bool chosen = false;  ///< Sources::choice counts

  /// `idle` under its heading; empty when nothing is idle.
  std::string idle_text() const;
};

/// Where a command's settings come from: --config FILE and key=value words, and where it takes them, nanoGPT's files and words.
struct Sources {
  std::vector<std::string> files;
  std::vector<std::string> overrides;     ///< nanoGPT's --name=value among them
  std::vector<std::string> nanogpt = {};  ///< FILE.py (settings/nanogpt)
  /// That a training has: DeepSpeed's train_batch_size and nanoGPT's gradient_accumulation_steps count what all do. Null: not
  /// known, and nothing follows from it.
  std::optional<std::int64_t> ranks = {};
  /// Settings for a new run of which nothing says model or length, below all others; empty: the defaults.
  std::vector<std::string> choice = {};

  /// Declares both on a command line; `this` must live until its parse().
  void declare(app::CommandLine& line);
  void declare_nanogpt(app::CommandLine& line);
};

/// What a command's word DATA stands for: a folder of prepared text ("data.dir=..."), or a text, which is prepared into a folder
/// that its content names. Throws UserError for what is neither, and where `overrides` name other data.
std::vector<std::string> data_settings(const std::string& data, const std::vector<std::string>& overrides);

/// Throws one UserError with every problem found, those that `also` finds included.
Resolved resolve(
    const Sources& sources, const std::function<std::vector<Problem>(const app::RunConfig&)>& also = [](const app::RunConfig&) {
      return std::vector<Problem>();
    });

}  // namespace lockstep::settings
