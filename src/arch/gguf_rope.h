#pragma once

// Scalings of rotary positions in GGUF files: keys behind "ARCHITECTURE.rope.scaling.", and Llama 3.1's as factors in a tensor.

#include <span>
#include <string_view>

#include "arch/config.h"
#include "arch/gguf.h"
#include "base/json.h"

namespace lockstep::arch::gguf {

/// The keys of a scaling, behind the architecture's name; none where rope_factors() says all.
Json scaling_pairs(const Rope& rope);
bool is_scaling_key(std::string_view key);

/// A config.json's "rope_scaling" from the pairs whose keys begin with `start`; null where they have no scaling. Throws
/// UserError, naming `what`, for another kind than linear and yarn.
Json scaling_of_pairs(const Json& pairs, std::string_view start, std::string_view what);
/// "rope_scaling" from the content of rope_factors_name. Throws UserError where it is no scaling of Llama 3.1's.
Json scaling_of_factors(std::span<const float> factors, double theta, std::string_view what);

}  // namespace lockstep::arch::gguf
