#pragma once

// Commands that a person pastes into a shell.

#include <string>
#include <vector>

namespace lockstep {

/// The words of a command, quoted where a POSIX shell would change them.
std::string shell_words(const std::vector<std::string>& words);

/// The words of a command of this program, quoted likewise. The program's name, as the person called it, is put in front.
std::string own_command(std::vector<std::string> words);

}  // namespace lockstep
