#pragma once

// What others wrote (names of files, values, lines of a file), as a terminal may get it.

#include <cstdint>
#include <string>
#include <string_view>

namespace lockstep {

enum class LineBreaks : std::uint8_t { escaped, kept };  ///< kept: tabs, too

/// The text with control characters, characters that are invisible or turn the direction of writing, and bytes that are not UTF-8
/// written as escapes: \n, \x1b, \u202e. What it returns stays as it is when it is made visible again.
std::string visible(std::string_view text, LineBreaks breaks = LineBreaks::escaped);

}  // namespace lockstep
