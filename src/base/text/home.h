#pragma once

// "~" as a shell reads it at the start of a word, for paths behind a "=", where it does not.

#include <cstdlib>
#include <string>
#include <string_view>

namespace lockstep {

/// The path with the user's folder (HOME) for a "~" in front; unchanged where HOME is not set.
inline std::string at_home(std::string_view path) {
  const char* const home = std::getenv("HOME");
  const bool asks = path == "~" || path.starts_with("~/");
  return asks && home != nullptr ? home + std::string(path.substr(1)) : std::string(path);
}

}  // namespace lockstep
