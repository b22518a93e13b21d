#pragma once

// What may stand for the word that a person types: what shells ask for.

#include <string>
#include <vector>

#include "app/cli/command_sheet.h"

namespace lockstep::app {

struct Candidates {
  std::vector<HelpRow> words;    ///< whole words and what they mean; those that end with '=' or '.' go on
  Places places = Places::none;  ///< what else fits, behind the word's last '='
};

/// Candidates for the last of `words`, which stand behind the program's name.
Candidates candidates_for(const CommandSheet& program, std::vector<std::string> words);

}  // namespace lockstep::app
