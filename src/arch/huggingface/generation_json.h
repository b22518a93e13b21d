#pragma once

// generation_config.json of a published model: how its publisher writes texts with it. Names and defaults are transformers'
// 5.24 (generation/configuration_utils.py).

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"

namespace lockstep::arch::huggingface {

struct Generation {
  std::vector<std::int64_t> ends = {};  ///< eos_token_id: any of these tokens ends a text
  // How a token is drawn; none: the file does not say. Without sampling the temperature is 0.
  std::optional<double> temperature = {}, top_p = {};
  std::optional<std::int64_t> top_k = {};
  std::vector<std::int64_t> suppressed = {};  ///< tokens that are never drawn
  std::vector<std::string> stops = {};        ///< texts that end a text
  std::vector<std::string> undone = {};       ///< "repetition_penalty is 1.1": what is asked for and not done here

  friend bool operator==(const Generation&, const Generation&) = default;
};

/// Reads a generation_config.json. Throws UserError, naming `what`, with all members that are of another type, out of range or
/// not known.
Generation generation_from_json(const Json& json, std::string_view what);

/// What a config.json without a generation_config.json beside it says of how texts are written, as such a file; null where it
/// says nothing (GenerationConfig.from_model_config). Its ends are left out.
Json generation_in_config(const Json& config);

/// The token ids of a member like eos_token_id, which is a number or a list; none where it is missing. Throws UserError.
std::vector<std::int64_t> token_ids(const Json& json, std::string_view key, std::string_view what);

/// Every key that a generation_config.json may have. A config.json may have them too.
std::span<const std::string_view> generation_keys();

}  // namespace lockstep::arch::huggingface
