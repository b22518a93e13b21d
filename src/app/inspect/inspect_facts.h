#pragma once

// What is in a path: the facts that `lockstep inspect` prints, as a table or as they are.

#include <filesystem>
#include <string>

#include "base/json.h"
#include "device/team.h"

namespace lockstep::app {

/// An object whose "kind" is one of
///   "checkpoint"   step, losses, configuration, files, tensors (name, file, dtype, shape, bytes, checksum), parameters
///   "run"          its checkpoints (step, losses, bytes, which is best and last, what is wrong with it), the latest one's
///                  configuration, the last line of its metrics
///   "safetensors", "gguf"  metadata, tensors, parameters
///   "published model"  a Hugging Face folder: configuration, tokenizer, tensors (with their files), parameters
///   "loss mask"    of which token file, its tokens, how many are taught
///   "tokens"       tokenizer, vocabulary (null: not known), files (tokens, bytes), how the text starts
/// A tensor that was read and has elements that are not finite says "finite": false. `verify` reads everything and adds
/// "damaged", a list of names, where something was promised that can be verified, and of a checkpoint "not_finite". Throws
/// UserError for a path that is none of these. `ids`: of raw ids, what they are (data/formats/token_layout.h).
Json inspect_facts(const std::filesystem::path& path, bool verify, Team& team, const std::string& ids = "auto");

}  // namespace lockstep::app
