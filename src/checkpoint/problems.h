#pragma once

// Complaints about the tensors of a file.

#include <vector>

#include "base/error.h"

namespace lockstep::checkpoint {

/// Throws the first few of many, and how many more there are, so that another model does not fill the screen.
[[noreturn]] void throw_first(std::vector<Problem> problems);

}  // namespace lockstep::checkpoint
