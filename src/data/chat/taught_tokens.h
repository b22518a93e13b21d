#pragma once

// From the bytes of a text that are taught to its tokens.

#include <cstdint>
#include <span>
#include <string_view>

#include "data/chat/chat_template.h"
#include "data/tokenizer.h"

namespace lockstep::data {

/// Sets mask[i] to 1 where the bytes of token ids[i] are in one of `taught`, wholly or in part, as transformers does; else to 0.
/// `ids` are those of the whole `text`, and `mask` has as many places. No part is empty.
void mark_taught(const Tokenizer& tokenizer, std::string_view text, std::span<const Taught> taught,
                 std::span<const std::int32_t> ids, std::span<std::uint8_t> mask);

}  // namespace lockstep::data
