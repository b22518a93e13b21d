#pragma once

// Complaints about a checkpoint and its tensors.

#include <filesystem>
#include <string>
#include <vector>

#include "base/error.h"

namespace lockstep::checkpoint {

/// Throws the first few problems of many, and how many more there are, so that another model does not fill the screen.
[[noreturn]] void throw_first(std::vector<Problem> problems);

/// The remedy where the checkpoint in `folder` is damaged.
std::string use_another(const std::filesystem::path& folder);

}  // namespace lockstep::checkpoint
