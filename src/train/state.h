#pragma once

// What a resume needs beyond the settings, and how it gets into a checkpoint and back.

#include <cstdint>
#include <optional>

#include "base/json.h"
#include "checkpoint/reader.h"
#include "checkpoint/writer.h"
#include "device/cpu/team.h"
#include "train/engine.h"

namespace lockstep::train {

/// Where a run stands.
struct RunState {
  std::int64_t step = 0;                       ///< optimizer steps done
  std::int64_t next_sample = 0;                ///< global number of the next training sample
  std::optional<double> validation_loss;       ///< measured at this step
  std::optional<double> best_validation_loss;  ///< of the run so far
};

/// Saves weights and moments as `<run>/checkpoints/step_N` and drops what is superseded (the best and the last two stay).
/// `extra` comes back in the manifest's `run`.
checkpoint::SaveReport save_run(const io::Path& run, Engine& engine, const RunState& state, const Json& extra, cpu::Team& team);

RunState state_of(const checkpoint::Manifest& manifest);
/// Fills weights and moments from a checkpoint, bit for bit: fp32 where the engine keeps fp32 (exactly, if the checkpoint has
/// bf16). Throws UserError when it is another model's, or would have to be rounded.
void load_run(const checkpoint::Reader& reader, Engine& engine, cpu::Team& team);
/// Fills only the weights: a new run from an old model, in whatever type.
void load_weights(const checkpoint::WeightSource& source, Engine& engine, cpu::Team& team);

/// A step's tokens, targets, loss, every gradient (before clipping) and every updated weight, as one safetensors file:
/// `tokens`, `targets`, `loss`, `gradient.<name>`, `weight.<name>`. Of several micro-batches, all tokens in order.
void dump_step(const io::Path& file, Engine& engine, std::span<const data::Batch> batches, double loss);

}  // namespace lockstep::train
