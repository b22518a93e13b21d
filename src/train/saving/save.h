#pragma once

// What a resume needs beyond the settings, and how it gets into a checkpoint.

#include <cstdint>
#include <optional>

#include "base/json.h"
#include "checkpoint/writer.h"
#include "device/team.h"
#include "train/engine.h"

namespace lockstep::train {

/// Where a run stands.
struct RunState {
  std::int64_t step = 0;                            ///< iterations done
  std::int64_t next_sample = 0;                     ///< global number of the next training sample
  std::optional<double> validation_loss = {};       ///< measured at this step
  std::optional<double> best_validation_loss = {};  ///< of the run so far
};

/// Saves weights and optimizer slots as `<run>/checkpoints/step_N` and drops superseded checkpoints (the best and the last two
/// stay). Each rank writes what it answers for. `extra` comes back in the manifest's `run`. Collective; what fails on one rank is
/// thrown on all.
checkpoint::SaveReport save_run(const io::Path& run, Engine& engine, const RunState& state, const Json& extra, Team& team);

/// The files of a checkpoint of the engine's model and optimizer.
std::vector<checkpoint::FileTable> file_tables(Engine& engine);
/// Throws UserError on every rank where the file system of the run's folder has no room for one checkpoint. Collective.
void demand_room(const io::Path& run, Engine& engine);
/// The manifest of a checkpoint, without its files and tensors.
checkpoint::Manifest manifest_of(Engine& engine, const RunState& state, const Json& extra);

}  // namespace lockstep::train
