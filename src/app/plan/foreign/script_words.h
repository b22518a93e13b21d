#pragma once

// The words of a shell script as programs would get them, without running it.

#include <string>
#include <string_view>
#include <vector>

namespace lockstep::app {

/// Words of all commands and arrays, in order. Variables that the script itself sets are put in ($N, ${N}, ${N:-standard}, and
/// $((A*B)) of whole numbers); others stay as they are written. Both branches of a condition are there, and so is what a variable
/// or a quoted word has of arguments ("--a 1 --b"). Throws UserError where variables grow beyond a megabyte.
std::vector<std::string> script_words(std::string_view text, const std::string& file);

}  // namespace lockstep::app
