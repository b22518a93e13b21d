#pragma once

// What a command that computes needs: device, kernels and communicators, opened in order and closed in the opposite one.

#include <memory>

#include "comm/communicator.h"
#include "device/cpu/team.h"
#include "device/runtime.h"
#include "ops/ops.h"

namespace lockstep::app {

class Session {
 public:
  /// threads 0: every core this process may use. Throws UserError for an instruction set that the machine lacks.
  Session(int threads, ops::Isa isa);

  Runtime& runtime() { return *runtime_; }
  ops::Ops& ops() { return *ops_; }
  comm::Communicator& world() { return *world_; }
  cpu::Team& team() { return cpu::team_of(*runtime_); }
  /// The instruction set that was taken.
  ops::Isa isa() const { return isa_; }

 private:
  ops::Isa isa_;
  std::unique_ptr<Runtime> runtime_;
  std::unique_ptr<Stream> stream_;
  std::unique_ptr<ops::Ops> ops_;
  std::unique_ptr<comm::Communicator> world_;
};

}  // namespace lockstep::app
