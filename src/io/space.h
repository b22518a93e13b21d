#pragma once

// Whether a file system has room for what is to be written.

#include <cstdint>
#include <optional>
#include <string_view>

#include "io/file.h"

namespace lockstep::io {

/// Bytes that this user may still write in the file system of a folder; nothing where that is not known.
std::optional<std::uint64_t> free_bytes(const Path& folder);
using FreeBytes = std::optional<std::uint64_t> (*)(const Path&);

/// Throws UserError that says what is needed and what is free where that is less. `what` is what needs it: "a checkpoint".
void demand_space(const Path& folder, std::uint64_t needed, std::string_view what, FreeBytes free = free_bytes);

}  // namespace lockstep::io
