#pragma once

// What a training run starts from: start values drawn from the seed, a checkpoint, or weights that another program published.

#include <optional>
#include <vector>

#include "app/settings/run_config.h"
#include "app/start/session.h"
#include "base/json.h"
#include "base/log.h"
#include "checkpoint/find.h"
#include "train/engine.h"
#include "train/state.h"

namespace lockstep::app {

struct Start {
  bool published = false;
  bool resumes = false;                          ///< the run of the checkpoint goes on
  std::optional<checkpoint::Choice> checkpoint;  ///< empty with published weights, and where start values are drawn
};

/// The start that the settings ask for. Rank 0 chooses a checkpoint, for all. What a resumed run left in the memory of hosts
/// comes first. `run`: the run's folder. Collective.
Start choose_start(const RunConfig& config, const io::Path& run, Session& session, Log& log);

/// Replaces numerics.bf16=auto by what it means: what a resumed run has, else what the session's ranks chose.
void settle_bf16_order(RunConfig& config, const Start& start, const Session& session);

/// Throws UserError where a resumed run's text has lost its description. The run had one, and without it the text gives
/// `vocabulary`, which is not the checkpoint's.
void demand_description(const Start& start, const io::Path& text, std::int64_t vocabulary);

/// What the run's checkpoints keep, beside its settings, to know it again (same_run.h), on rank 0. A resume of another run is
/// refused with all `problems`, those found before included, on all ranks; what changes what is learned is warned of.
/// `vocabulary`: the model's. Throws UserError. Collective.
Json identify_run(const RunConfig& config, const Start& start, std::int64_t vocabulary, std::vector<Problem> problems,
                  Session& session, Log& log);

/// Sets the weights (and on a resume, everything) of every rank that trains, the same on all. Returns where the run then stands.
/// Each rank draws its own or reads a part, or rank 0 sends all (parallel.broadcast_start). Collective over the engine's ranks.
train::RunState load_start(const RunConfig& config, const Start& start, train::Engine& engine, Session& session, Log& log);

}  // namespace lockstep::app
