#pragma once

// The memory that the ranks of one host make and map at the start, when they are processes. It has the directories of their
// segments, the roll, and the board of their first group.

#include <atomic>
#include <span>

#include "comm/host/board.h"
#include "comm/host/staging.h"
#include "comm/mpi/library.h"
#include "comm/mpi/process_memory.h"
#include "comm/mpi/segment.h"

namespace lockstep::comm {

/// What all ranks of the host see from the start. Directories and roll have a place for every rank of the world. The board has
/// one for every rank of the host.
struct HostControl {
  struct Head {
    std::atomic<int> exit_code;         ///< of the error that ended the run; 0: no error, or one whose code is 1
    std::atomic<std::uint32_t> lost;    ///< a process is no more
    std::atomic<std::uint32_t> ending;  ///< a rank has told MPI to end the job
  };
  HostControl(std::byte* memory, int world, int host);
  static std::size_t bytes(int world, int host);

  Head* head;
  std::span<Directory> directories;
  host::Roll roll;
  host::Board board;
};

struct HostMemory {
  /// Makes the memory of `host`, this rank's host. It succeeds on every rank, or throws SystemError on every rank. Collective
  /// over the world.
  HostMemory(const MpiLibrary& mpi, const MpiLibrary::Host& host);

  Segment segment;  ///< where `control` lies
  HostControl control;
  ProcessMemory memory;
  host::Staging staging;
};

}  // namespace lockstep::comm
