#pragma once

// Memory that ranks which are processes of one host share. Every rank makes segments of its own. It maps the segments of another
// rank when it first meets them.

#include <array>
#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "comm/host/board.h"
#include "comm/mpi/segment.h"
#include "device/memory.h"

namespace lockstep::comm {

/// A rank's segments as the others find them. They lie in memory that all ranks map, zeroed at the start, written by that rank
/// alone.
struct Directory {
  static constexpr std::size_t capacity = 4096;  ///< segments of a rank in one run; the first is not used
  struct Entry {
    std::int32_t descriptor;
    std::uint64_t bytes;  ///< 0: there is none, or no more
  };
  int pid;
  std::array<Entry, capacity> entries;
};

/// Used by the rank's thread alone.
class ProcessMemory final : public host::SharedMemory {
 public:
  /// `directories`: those of all ranks; `rank` is this rank. They outlive this.
  ProcessMemory(std::span<Directory> directories, int rank);

  std::uint64_t token(const std::byte* address) const override;
  std::byte* find(int rank, std::uint64_t token) const override;
  std::byte* allocate(std::size_t bytes) override;
  /// Hands out memory that the other ranks see. Throws SystemError when there is none.
  MemorySource& window() { return window_; }

 private:
  class Window final : public MemorySource {
   public:
    explicit Window(ProcessMemory& memory) : memory_(memory) {}
    Memory allocate(std::size_t size) override;

   private:
    void release(std::byte* data, std::size_t size) noexcept override;
    ProcessMemory& memory_;
  };
  std::byte* add_segment(std::size_t bytes);
  const Segment& reach(int rank, std::uint64_t id) const;

  std::span<Directory> directories_;
  int rank_;
  std::uint64_t next_ = 1;
  std::map<const std::byte*, std::uint64_t> own_;       // segments by where they begin
  mutable std::vector<std::vector<Segment>> segments_;  // by rank and number, as far as they have been met
  std::byte* rest_ = nullptr;                           // of the segment that allocate() cuts from
  std::size_t rest_bytes_ = 0;
  Window window_;
};

}  // namespace lockstep::comm
