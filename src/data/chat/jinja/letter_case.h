#pragma once

// Upper and lower case of ASCII and of Latin, Greek, Cyrillic and Armenian letters. Letters of other scripts stay as they are.

#include <string>

namespace lockstep::data::jinja {

void append_upper(std::string& text, char32_t point);
void append_lower(std::string& text, char32_t point);

}  // namespace lockstep::data::jinja
