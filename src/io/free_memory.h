#pragma once

// How much memory this machine has, and how much of it programs may still take.

#include <cstdint>
#include <optional>
#include <string>

#include "io/file.h"

namespace lockstep::io {

struct FreeMemory {
  std::int64_t bytes = 0;
  std::string source;  ///< which system file or group says so, for a message
};

/// The least of what the kernel calls available and what the limits of this process' control groups (versions 1 and 2) leave.
/// Pages of files that the kernel can drop count as free; swap does not count. Nothing where neither is known. `root`: where
/// /proc and /sys lie.
std::optional<FreeMemory> free_memory(const Path& root = "/");

/// All memory of the machine; nothing where it is not known.
std::optional<std::int64_t> memory_of_machine(const Path& root = "/");

}  // namespace lockstep::io
