#pragma once

// What a checkpoint has of a run back into an engine; and what one step did, as a file.

#include "checkpoint/reader.h"
#include "train/saving/save.h"

namespace lockstep::train {

RunState state_of(const checkpoint::Manifest& manifest);
/// Fills weights, optimizer slots and the number of updates from a checkpoint, bit for bit: fp32 where the engine keeps fp32
/// (exactly, if the checkpoint has bf16). `ranks`: all of the engine's, of which each reads what it answers for; or fewer that
/// hold all parameters together, each of which reads all that it holds. Throws UserError when it is another model's or another
/// optimizer's, or would have to be rounded. Collective over `ranks`.
void load_run(const checkpoint::Reader& reader, Engine& engine, comm::Communicator& ranks, Team& team);
/// Fills only the weights: a new run from an old model, in whatever type. Collective.
void load_weights(const checkpoint::WeightSource& source, Engine& engine, comm::Communicator& ranks, Team& team);

/// A step's tokens, targets, loss, every gradient (before clipping) and every updated weight, as one safetensors file:
/// `tokens`, `targets`, `loss`, `gradient.<name>`, `weight.<name>`. Tokens and targets are those of all samples of the step, in
/// their order, whatever rank had them. Rank 0 writes. Collective.
void dump_step(const io::Path& file, Engine& engine, std::span<const data::Batch> batches, double loss);

}  // namespace lockstep::train
