#pragma once

// What is in safetensors and GGUF files: facts for `lockstep inspect`.

#include <filesystem>

#include "base/json.h"
#include "device/team.h"

namespace lockstep::app {

/// "safetensors": metadata, tensors, parameters.
Json safetensors_facts(const std::filesystem::path& path, Team& team);
/// "gguf": the same; a list of metadata is told by its first elements.
Json gguf_facts(const std::filesystem::path& path, Team& team);
/// "published model", of a folder: its configuration, tokenizer and tensors.
Json published_facts(const std::filesystem::path& folder, Team& team);

}  // namespace lockstep::app
