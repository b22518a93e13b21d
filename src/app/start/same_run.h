#pragma once

// Whether a run that goes on is the one that a checkpoint is of. The settings table says for each key what a resume may do with
// it (settings::OnResume). The text, the samples of a step and the order of the kernels' sums are compared, too.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "app/settings/run_config.h"
#include "base/json.h"
#include "checkpoint/manifest.h"
#include "ops/cpu/options.h"

namespace lockstep::app {

/// What makes a run the one it is.
struct RunIdentity {
  RunConfig config;
  std::int64_t vocabulary = 0;    ///< of the model, where the settings do not say it
  std::int64_t global_batch = 0;  ///< samples of a step
  std::string isa;                ///< what the kernels were for
  std::string program = {};       ///< program_version()
  Json data;                      ///< data::fingerprint()
};

/// What changes what is learned, and from which step on.
struct Change {
  std::int64_t step = 0;
  std::string setting;
  Json was, is;
};

struct Comparison {
  std::vector<Problem> problems;     ///< why this is another run
  std::vector<Change> changes;       ///< what it learns otherwise from here on
  std::string other_program;         ///< the program that wrote the checkpoint; empty: this one, or it is not known
  std::vector<std::string> unknown;  ///< what an older checkpoint does not say and cannot be compared
};

/// How the checkpoint's bf16 products add, where it says so; one of an older version says it by its instruction set.
std::optional<ops::Bf16Order> stored_bf16_order(const checkpoint::Manifest& manifest);

/// Whether the checkpoint's run trained with numerics.canonical.
bool stored_canonical(const checkpoint::Manifest& manifest);

/// Compares this run with the run that the checkpoint in `folder` is of.
Comparison compare_runs(const RunIdentity& now, const checkpoint::Manifest& manifest, const std::string& folder);

/// What checkpoints keep of a run, beside its settings, to compare it by: members of the manifest's `run`. `before`: the manifest
/// that the run goes on from, or null.
Json identity_json(const RunIdentity& now, const std::vector<Change>& changes, const checkpoint::Manifest* before);

/// The keys of the settings table by what a resume does with them, as the table in docs/checkpoint-format.md.
std::string resume_table();

}  // namespace lockstep::app
