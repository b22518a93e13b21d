#pragma once

// Where not every memory is shared, operations on memory that the other ranks do not see go through buffers that they see. What a
// rank gives is copied when the operation begins, and what it gets when its request ends. Host buffers that only their own rank
// touches (what a broadcast or a gather brings) stay where they are. No rank sees the memory of a device, not even its own. So
// the rank waits for what a device computed before it gives that.

#include <array>
#include <functional>
#include <vector>

#include "comm/host/board.h"
#include "comm/request.h"
#include "device/memory.h"

namespace lockstep::comm::host {

struct Rank;

/// Shared buffers, used again and again. The pool has as many small ones as were ever under way. Large ones that are free give
/// way when a larger one is made.
class StagingPool {
 public:
  struct Block {
    std::byte* data = nullptr;
    std::size_t bytes = 0;
    Memory large = {};  ///< its memory, when it is a large one
  };

  explicit StagingPool(MemorySource& shared) : shared_(shared) {}
  /// A buffer of at least `bytes`, which is not 0, aligned to 64.
  Block take(std::size_t bytes);
  void give_back(Block block);

 private:
  static constexpr int classes = 21;  // of small ones: powers of two up to 1 MiB
  void cut_slab(std::size_t index);

  MemorySource& shared_;
  std::vector<Memory> slabs_;
  std::array<std::vector<std::byte*>, classes> small_;
  std::vector<Memory> large_;
};

class Staging {
 public:
  /// `memory` tells what is shared and `shared` hands more of it out; both outlive this.
  Staging(const SharedMemory& memory, MemorySource& shared) : memory_(memory), pool_(shared) {}

  /// Carries out the operation of member `rank` of a group of `context`. `start` begins it on buffers that the others see. This
  /// and `context` outlive the request.
  Request issue(const Operation& operation, int rank, const Rank& context, const std::function<Request(const Operation&)>& start);

 private:
  class Pending;
  /// Whether what this member gives is copied, and whether what it gets is.
  bool copies_in(const Operation& operation, int rank) const;
  bool copies_out(const Operation& operation, int rank) const;

  const SharedMemory& memory_;
  StagingPool pool_;
};

}  // namespace lockstep::comm::host
