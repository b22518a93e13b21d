#pragma once

// One open device: makes streams, events and memory.

#include <memory>
#include <string>

#include "device/device.h"
#include "device/memory.h"
#include "device/stream.h"

namespace lockstep {

namespace cpu {
class Team;
}

class Runtime {
 public:
  virtual ~Runtime() = default;
  virtual Device device() const = 0;
  virtual std::unique_ptr<Stream> make_stream() = 0;
  virtual MemorySource& memory() = 0;
  /// One line for the start-up log: processor, threads, instruction set.
  virtual std::string description() const = 0;
};

/// What the CPU's runtime needs to know; ignored by other devices.
struct CpuOptions {
  int threads = 0;  ///< workers of this rank, the caller included; 0: every core this process may use
};

/// Opens a device. Throws UserError when this build or machine has no such device.
std::unique_ptr<Runtime> open_runtime(Device device, CpuOptions options = {});

namespace cpu {
/// The worker team of a CPU runtime; throws BrokenRule for another device.
Team& team_of(Runtime& runtime);
}  // namespace cpu

}  // namespace lockstep
