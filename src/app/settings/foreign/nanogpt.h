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
  std::vector<std::string> idle;  ///< a line for each name that was given and from which nothing follows
  std::vector<Problem> problems;
};

/// The names that words and files may have.
std::vector<std::string> nanogpt_names();
/// Reads `words` in order, each --name=value of a known name or the path of a file. What is wrong, with file and line, is in the
/// result's problems.
NanoGpt read_nanogpt(const std::vector<std::string>& words);
/// gradient_accumulation_steps counts the micro-batches of all ranks, ours those of one: what was said is divided by the
/// `replicas` that read different samples. Returns why it cannot.
std::vector<Problem> share_accumulation(NanoGpt::Assignment& said, std::int64_t replicas);
/// Sets the values. Returns the problems of those that break their key's rule.
std::vector<Problem> assign_all(app::RunConfig& config, const std::vector<NanoGpt::Assignment>& assignments);

}  // namespace lockstep::settings
