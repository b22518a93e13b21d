#pragma once

// From files and the command line to a RunConfig. A later one of these wins: defaults, the DeepSpeed file that
// train.ds_config_path names, files, nanoGPT's, group=option, single settings in whichever grammar. Each kind is read from left
// to right.

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
  /// A line for each setting that was asked for and changes nothing, with the reason. Words are all told of. Settings of files
  /// and bundles are told of where their value is another than without them.
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
  /// Ranks of the training. DeepSpeed's train_batch_size and nanoGPT's gradient_accumulation_steps count what all of them do.
  /// Null: the number is not known, and nothing follows from it.
  std::optional<std::int64_t> ranks = {};
  /// Settings for a new run of which nothing says model or length, below all others; empty: the defaults.
  std::vector<std::string> choice = {};

  /// Declares --config and the overrides on a command line; `this` must live until its parse().
  void declare(app::CommandLine& line);
  void declare_nanogpt(app::CommandLine& line);
};

/// Throws one UserError with every problem found, those that `also` finds included.
Resolved resolve(
    const Sources& sources, const std::function<std::vector<Problem>(const app::RunConfig&)>& also = [](const app::RunConfig&) {
      return std::vector<Problem>();
    });

}  // namespace lockstep::settings
