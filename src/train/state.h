#pragma once

// Loads a checkpoint into an engine, and dumps one step into a file.

#include "checkpoint/reader.h"
#include "train/saving/save.h"

namespace lockstep::train {

RunState state_of(const checkpoint::Manifest& manifest);
/// Fills weights, optimizer slots and the number of updates from a checkpoint, bit for bit. What the engine keeps in fp32 is read
/// as fp32, exactly, even if the checkpoint has bf16. `ranks` are either all of the engine's, and each reads what it answers for.
/// Or they are fewer, which together hold all parameters, and each reads all that it holds. Throws UserError where the checkpoint
/// is another model's or another optimizer's, or would have to be rounded. Collective over `ranks`.
void load_run(const checkpoint::Reader& reader, Engine& engine, comm::Communicator& ranks, Team& team);
/// Fills only the weights, in whatever type: a new run starts from an old model. Collective.
void load_weights(const checkpoint::WeightSource& source, Engine& engine, comm::Communicator& ranks, Team& team);

/// A step's tokens, targets, loss, every gradient (before clipping) and every updated weight, as one safetensors file: `tokens`,
/// `targets`, `loss`, `gradient.<name>`, `weight.<name>`. Tokens and targets are those of all samples of the step, in their
/// order, whatever rank had them. Rank 0 writes. Collective.
void dump_step(const io::Path& file, Engine& engine, std::span<const data::Batch> batches, double loss);

}  // namespace lockstep::train
