#pragma once

// Whether the memory that ranks are about to take is free on their hosts. Otherwise the lack would show when pages are touched:
// then the kernel ends a process without a word.

#include <cstdint>
#include <optional>
#include <string>

#include "comm/communicator.h"
#include "io/free_memory.h"

namespace lockstep::comm {

/// A host whose ranks together need more than it has free.
struct MemoryShortage {
  std::string host;
  int ranks = 1;
  std::int64_t needed = 0;  ///< with a little that no rank declares: stacks, buffers of libraries
  io::FreeMemory free;
  /// "the 2 ranks of host a need 9.00 GiB, and 8.00 GiB of its memory are free (MemAvailable of /proc/meminfo)".
  std::string text() const;
};

/// The host that lacks most; nothing where all hosts have enough or do not say. `bytes` is what this rank will take, `free` what
/// it sees (io::free_memory()). The result is the same on all ranks. Collective.
std::optional<MemoryShortage> memory_shortage(Communicator& world, std::int64_t bytes, const std::optional<io::FreeMemory>& free);

/// Throws UserError on all ranks where there is a shortage: "WHAT: the run needs ...". Collective.
void demand_free_memory(Communicator& world, std::int64_t bytes, const std::string& what, const std::string& remedy);

}  // namespace lockstep::comm
