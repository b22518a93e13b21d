#pragma once

// What is in a folder.

#include <filesystem>
#include <system_error>
#include <vector>

namespace lockstep::io {

/// Paths of what `folder` holds, in no order. `failed` says why a folder cannot be read, or not to its end; never that a signal
/// interrupted it.
std::vector<std::filesystem::path> entries_of(const std::filesystem::path& folder, std::error_code& failed);

}  // namespace lockstep::io
