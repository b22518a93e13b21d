#pragma once

// The printable characters that stand for bytes in the files of byte-level vocabularies. Printable ASCII and Latin-1 stand for
// themselves, the other bytes in order for U+0100 and on.

#include <optional>
#include <string>
#include <string_view>

namespace lockstep::data::bpe {

/// Bytes as a vocabulary file writes them.
std::string to_alphabet(std::string_view bytes);
/// Bytes from what a vocabulary file writes; nothing when the text holds another character.
std::optional<std::string> from_alphabet(std::string_view text);

}  // namespace lockstep::data::bpe
