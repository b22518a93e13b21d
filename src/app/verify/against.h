#pragma once

// `lockstep verify --against`: another system's step, judged by the oracle.

#include <string>

#include "app/folder/answer_line.h"

namespace lockstep::app {

/// Prints the verdict. Returns 0 where the dump agrees, 1 where it does not. Throws UserError for a dump that cannot be judged.
int verify_against(const std::string& dump, AnswerLine& line);

}  // namespace lockstep::app
