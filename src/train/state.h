#pragma once

// What a resume needs beyond the settings, and how it gets into a checkpoint and back.

#include <cstdint>
#include <optional>

#include "base/json.h"
#include "checkpoint/reader.h"
#include "checkpoint/writer.h"
#include "device/team.h"
#include "train/engine.h"

namespace lockstep::train {

/// Where a run stands.
struct RunState {
  std::int64_t step = 0;                            ///< optimizer steps done
  std::int64_t next_sample = 0;                     ///< global number of the next training sample
  std::optional<double> validation_loss = {};       ///< measured at this step
  std::optional<double> best_validation_loss = {};  ///< of the run so far
};

/// Saves weights and optimizer slots as `<run>/checkpoints/step_N` and drops what is superseded (the best and the last two stay).
/// Each rank writes what it answers for. `extra` comes back in the manifest's `run`. Collective; what fails on one rank is thrown
/// on all.
checkpoint::SaveReport save_run(const io::Path& run, Engine& engine, const RunState& state, const Json& extra, Team& team);

RunState state_of(const checkpoint::Manifest& manifest);
/// Fills weights and optimizer slots from a checkpoint, bit for bit: fp32 where the engine keeps fp32 (exactly, if the checkpoint
/// has bf16). `ranks`: all of the engine's, of which each reads what it answers for; or fewer that hold all parameters together,
/// each of which reads all that it holds. Throws UserError when it
/// is another model's or another optimizer's, or would have to be rounded. Collective over `ranks`.
void load_run(const checkpoint::Reader& reader, Engine& engine, comm::Communicator& ranks, Team& team);
/// Fills only the weights: a new run from an old model, in whatever type. Collective.
void load_weights(const checkpoint::WeightSource& source, Engine& engine, comm::Communicator& ranks, Team& team);

/// A step's tokens, targets, loss, every gradient (before clipping) and every updated weight, as one safetensors file:
/// `tokens`, `targets`, `loss`, `gradient.<name>`, `weight.<name>`. Tokens and targets are those of all samples of the step, in
/// their order, whatever rank had them. Rank 0 writes. Collective.
void dump_step(const io::Path& file, Engine& engine, std::span<const data::Batch> batches, double loss);

}  // namespace lockstep::train
