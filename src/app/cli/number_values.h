#pragma once

// Numbers as values of options.

#include <cstdint>
#include <string>

namespace lockstep::app {

/// Reads all of `text` as a number: a finite one, which the target holds exactly or nearly. False for another text.
bool read_number(const std::string& text, double& target);
/// A whole number from -most to most.
bool read_number(const std::string& text, std::int64_t& target, std::int64_t most);
/// What to add to the rule for a whole number that is beyond `most`: " of at most 8". Empty for another text.
std::string integer_bounds(const std::string& text, std::int64_t most);
std::string number_bounds(const std::string& text);

}  // namespace lockstep::app
