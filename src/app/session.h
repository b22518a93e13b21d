#pragma once

// What a command that computes needs on one rank: device, kernels and communicators, opened in order and closed in the opposite
// one; and the ranks themselves.

#include <cstdint>
#include <functional>
#include <memory>

#include "comm/communicator.h"
#include "device/cpu/team.h"
#include "device/runtime.h"
#include "ops/ops.h"

namespace lockstep::app {

class Session {
 public:
  /// `world` outlives the session. threads 0: every core the calling thread may use. Throws UserError for an instruction set that
  /// the machine lacks.
  Session(int threads, ops::Isa isa, comm::Communicator& world);

  Runtime& runtime() { return *runtime_; }
  ops::Ops& ops() { return *ops_; }
  comm::Communicator& world() { return world_; }
  bool lead() const { return world_.rank() == 0; }
  cpu::Team& team() { return cpu::team_of(*runtime_); }
  /// The instruction set that was taken.
  ops::Isa isa() const { return isa_; }

 private:
  ops::Isa isa_;
  std::unique_ptr<Runtime> runtime_;
  std::unique_ptr<Stream> stream_;
  std::unique_ptr<ops::Ops> ops_;
  comm::Communicator& world_;
};

struct RankOptions {
  std::int64_t ranks = 1;
  std::int64_t threads = 0;  ///< of each rank; 0: its share of this host's cores
  ops::Isa isa = ops::Isa::automatic;
  double timeout = 600;  ///< comm.timeout, seconds
};

/// Calls body on every rank at the same time, each in a thread of this process with its share of the cores, and returns when all
/// have ended; one rank runs on the calling thread alone. The first error of a rank ends the others and is thrown. UserError when
/// the number of ranks or threads is out of range.
void run_on_ranks(const RankOptions& options, const std::function<void(Session&)>& body);

}  // namespace lockstep::app
