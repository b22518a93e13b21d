#pragma once

// What is in a folder.

#include <filesystem>
#include <system_error>
#include <vector>

namespace lockstep::io {

/// Paths of the entries of `folder`, in no order. `failed` says why the folder cannot be read to its end. A signal is no reason.
std::vector<std::filesystem::path> entries_of(const std::filesystem::path& folder, std::error_code& failed);

}  // namespace lockstep::io
