#pragma once

// One open device: makes streams, events and memory, and has the host threads of its rank.

#include <memory>
#include <string>

#include "device/device.h"
#include "device/memory.h"
#include "device/stream.h"

namespace lockstep {

class Team;

class Runtime {
 public:
  virtual ~Runtime() = default;
  virtual Device device() const = 0;
  virtual std::unique_ptr<Stream> make_stream() = 0;
  MemorySource& memory(Space space = Space::device) { return source(space); }
  /// The rank's host threads, for what the host does itself: checkpoints, hashes, copies between ranks. On the CPU they compute,
  /// too.
  virtual Team& team() = 0;
  /// One line for the start-up log: processor, threads, instruction set.
  virtual std::string description() const = 0;

 private:
  virtual MemorySource& source(Space space) = 0;
};

/// What a runtime needs to know of the rank's host threads, which compute on the CPU alone.
struct CpuOptions {
  int threads = 0;  ///< workers of this rank, the caller included; 0: every core this process may use
};

/// Opens a device. Throws UserError when this build or machine has no such device.
std::unique_ptr<Runtime> open_runtime(Device device, CpuOptions options = {});

}  // namespace lockstep
