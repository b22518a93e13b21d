#pragma once

// What a config.json says about rotary positions. In transformers 5 all of it is in "rope_parameters". Before, "rope_theta" stood
// beside "rope_scaling", whose kind was its "type", later its "rope_type".

#include <string_view>

#include "arch/config.h"
#include "arch/huggingface/fields.h"
#include "base/json.h"

namespace lockstep::arch::huggingface {

/// The longest context that a file may name.
inline constexpr std::int64_t most_positions = 1 << 30;

/// Reads config.rope, whose theta counts where nothing says one.
void read_rope(Fields& fields, const Json& json, ModelConfig& config, std::string_view what);
/// Reads config.rope where layers that see a window have a base of their own (Gemma3TextConfig). The base is
/// "rope_local_base_freq", or transformers 5 has two objects in "rope_parameters". `local_theta` counts where nothing says one.
void read_layered_rope(Fields& fields, const Json& json, ModelConfig& config, std::string_view what, double local_theta);
/// "rope_scaling" of a model with contexts of `positions`; null without one. LongRoPE's original context is left to the caller.
Json rope_json(const Rope& rope, std::int64_t positions);

}  // namespace lockstep::arch::huggingface
