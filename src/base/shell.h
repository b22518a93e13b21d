#pragma once

// Commands that a person pastes into a shell.

#include <string>
#include <vector>

namespace lockstep {

/// The words of a command, quoted for a POSIX shell where it would read them otherwise.
std::string shell_words(const std::vector<std::string>& words);

/// The same of a command of this program, whose name comes first, as the person called it.
std::string own_command(std::vector<std::string> words);

}  // namespace lockstep
