#pragma once

// Complaints about a checkpoint and its tensors.

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "checkpoint/manifest.h"

namespace lockstep::checkpoint {

/// Throws the first few problems of many, and how many more there are, so that another model does not fill the screen. `of`:
/// what has problems.
[[noreturn]] void throw_first(std::vector<Problem> problems, std::string_view of = "tensors");

/// What is wrong with the files of a checkpoint, as far as their sizes tell; empty: nothing.
std::string fault_of_files(const std::filesystem::path& folder, const Manifest& manifest);

/// The remedy where the checkpoint in `folder` is damaged.
std::string use_another(const std::filesystem::path& folder);

}  // namespace lockstep::checkpoint
