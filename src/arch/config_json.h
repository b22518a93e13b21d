#pragma once

// A model's configuration in files: checkpoints carry it, so that a model can be rebuilt from its folder alone.

#include "arch/config.h"
#include "base/json.h"

namespace lockstep::arch {

Json to_json(const ModelConfig& config);
/// Throws UserError, naming `what`, for missing keys, unknown parts and sizes that break a rule of check().
ModelConfig model_from_json(const Json& json, std::string_view what);

}  // namespace lockstep::arch
