// Questions that tests ask of printed text.
#pragma once

#include <string>
#include <string_view>

namespace lockstep {

inline bool contains(std::string_view text, std::string_view part) { return text.find(part) != std::string_view::npos; }

}  // namespace lockstep
