#pragma once

// A published model as a checkpoint of ours.

#include <cstdint>

#include "checkpoint/huggingface/weights.h"

namespace lockstep::checkpoint::huggingface {

/// Throws UserError when `folder` is there already: what is converted replaces nothing.
void demand_new(const io::Path& folder);

/// Writes the checkpoint's folder: weights of `type` (fp32 or bf16, rounded to the nearest even), `run` in its manifest, nothing
/// of an optimizer. Some MiB of memory a thread, however large the model; what throws leaves nothing behind. Returns the bytes of
/// the weights' file.
std::uint64_t import_model(const Weights& weights, const io::Path& folder, DType type, const Json& run, Team& team);

}  // namespace lockstep::checkpoint::huggingface
