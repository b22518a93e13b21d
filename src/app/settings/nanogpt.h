#pragma once

// Settings as nanoGPT's train.py takes them: --name=value words, and files of `name = literal` lines (its config/*.py). Names are
// mapped to ours. A file brings train.py's own defaults for what it leaves out; words alone do not.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "app/settings/keys.h"

namespace lockstep::settings {

struct NanoGpt {
  struct Assignment {
    std::string place;  ///< "config/train.py:3: max_iters", "--max_iters"
    const Key* key;
    Json value;
  };
  std::vector<Assignment> defaults, given;
  std::vector<Problem> problems;
};

/// The names that words and files may have.
std::vector<std::string> nanogpt_names();
/// Reads `words` in order, each --name=value of a known name or the path of a file. `ranks`: that gradient_accumulation_steps,
/// which counts those of all, is divided by. What is wrong, with file and line, is in the result's problems.
NanoGpt read_nanogpt(const std::vector<std::string>& words, std::int64_t ranks);
/// Sets the values; the problems of those that break their key's rule.
std::vector<Problem> assign_all(app::RunConfig& config, const std::vector<NanoGpt::Assignment>& assignments);

}  // namespace lockstep::settings
