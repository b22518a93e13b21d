#pragma once

// The config.json of a published model, both ways.

#include <string_view>

#include "arch/config.h"
#include "arch/huggingface/tensors.h"
#include "base/json.h"

namespace lockstep::arch::huggingface {

struct PublishedModel {
  Family family = Family::gpt2;
  ModelConfig config;
};

/// Reads a config.json. Throws UserError, naming `what`, with all that is wrong. Parts that are not known are wrong, such as an
/// architecture or a kind of rotary positions. So are fields that are missing, of another type or impossible.
PublishedModel model_from_json(const Json& json, std::string_view what);

/// The family that can say what the model is; throws UserError naming the parts for a model that none can.
Family family_of(const ModelConfig& config);
/// The config.json of that family, as transformers reads it; the type of the weights is left to the caller.
Json to_json(const ModelConfig& config, Family family);

}  // namespace lockstep::arch::huggingface
