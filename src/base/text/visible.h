#pragma once

// Text that others wrote (names of files, values, lines of a file) in a form that is safe for a terminal.

#include <cstdint>
#include <string>
#include <string_view>

namespace lockstep {

enum class LineBreaks : std::uint8_t { escaped, kept };  ///< kept: tabs are kept, too

/// The text with escapes for what a terminal must not get: \n, \x1b, \u202e. Escaped are control characters, invisible
/// characters, those that turn the direction of writing, and bytes that are not UTF-8. A visible text stays as it is when it is
/// made visible again.
std::string visible(std::string_view text, LineBreaks breaks = LineBreaks::escaped);

}  // namespace lockstep
