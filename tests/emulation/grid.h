#pragma once

// A grid of blocks while it runs.

#include <cstddef>
#include <functional>
#include <string>

#include "driver_types.h"

namespace lockstep::emulation {

/// A kernel's launch, as it stands on a stream.
struct Launch {
  const void* kernel;
  dim3 grid, block;
  std::size_t shared_bytes;
  std::function<void()> thread;
};

/// Runs every block, in random order. Throws Fault where one cannot go on.
void run_grid(const Launch& launch);
/// The name of the kernel that runs, as the program's symbols have it.
std::string running_kernel();
/// What an address in or behind the shared memory belongs to.
std::string shared_memory_at(const std::byte* address);
std::string to_string(uint3 index);

}  // namespace lockstep::emulation
