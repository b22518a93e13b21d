#pragma once

// What a command that computes needs on one rank: device, kernels and communicators. They are opened in order and closed in the
// opposite one. The ranks themselves are started here, too.

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "comm/communicator.h"
#include "device/runtime.h"
#include "device/team.h"
#include "ops/open_ops.h"

namespace lockstep::app {

/// What the ranks are: one alone, threads of this process, or processes that mpiexec or srun started.
enum class Transport : std::uint8_t { self, thread, mpi };
std::string_view name_of(Transport transport);

/// What all ranks compute with.
struct AgreedKernels {
  ops::CpuOptions kernels;  ///< nothing is automatic
  std::string narrowed;     ///< who keeps this rank from a wider instruction set; empty: nobody
};

class Session {
 public:
  /// The ranks first agree on their kernels: all use the narrowest instruction set that any rank has or asks for. `world`
  /// outlives the session. threads 0: every core the calling thread may use. `crowded`: this host's ranks have more threads than
  /// it has cores. Throws UserError for what the machine or the build lacks. Collective.
  Session(int threads, const ops::CpuOptions& kernels, comm::Communicator& world, Transport transport = Transport::self,
          const Device& device = {}, bool crowded = false);

  Runtime& runtime() { return *runtime_; }
  /// The agreed kernels, made by the first call.
  ops::Ops& ops();
  /// Kernels of their own, which the session and `observer` outlive; null: nobody observes them. `order`: of bf16 products, where
  /// it is not bf16_order().
  std::unique_ptr<ops::Ops> make_ops(ops::OpObserver* observer, std::optional<ops::Bf16Order> order = {}) const;
  comm::Communicator& world() const { return world_; }
  bool lead() const { return world_.rank() == 0; }
  bool crowded() const { return crowded_; }
  Transport transport() const { return transport_; }
  /// The one rank of its process that sees to what concerns the process: signals and the clock.
  bool leads_process() const { return lead() || transport_ == Transport::mpi; }
  Team& team() { return runtime_->team(); }
  /// The instruction set of all ranks.
  ops::Isa isa() const { return agreed_.kernels.isa; }
  /// How products of two bf16 operands add, on all ranks: never automatic. Where the settings leave it open, as all
  /// ranks' processors would (ops::usual_bf16_order()), or widened where they differ.
  ops::Bf16Order bf16_order() const { return agreed_.kernels.bf16; }
  /// Device and instruction set in a line, for the log; it says which rank keeps the others from a wider one.
  std::string description() const;

 private:
  comm::Communicator& world_;
  const Transport transport_;
  const bool crowded_;
  const AgreedKernels agreed_;
  const std::unique_ptr<Runtime> runtime_;
  const std::unique_ptr<Stream> stream_;
  std::unique_ptr<ops::Ops> ops_;
  std::string certified_;  // of a GPU: what description() says of its certificate
};

/// Ranks that one command starts as its threads, at most: 16 a core, and 64 on any machine. More would keep a machine busy for
/// minutes with waiting for each other.
std::int64_t most_ranks();

struct RankOptions {
  std::int64_t ranks = 1;
  std::int64_t servers = 0;  ///< of them, the last ones, which wait most of the time: they have the others' cores once more
  std::int64_t threads = 0;  ///< of each rank; 0: its share of this host's cores
  ops::Isa isa = ops::Isa::automatic;
  ops::Products products = ops::Products::ours;
  ops::PlainKernels plain = {};
  ops::Bf16Order bf16 = ops::Bf16Order::automatic;
  std::string device = {};             ///< "cpu", "cuda"; empty: the processor
  bool takes_gpu = false;              ///< where `device` is empty: a GPU, if every rank has one with a good certificate
  double timeout = 600;                ///< comm.timeout, seconds
  std::function<void()> prepare = {};  ///< done once, by one process, before any rank begins
  /// Makes the communicator that a thread rank uses around its own; empty: it uses its own.
  std::function<std::unique_ptr<comm::Communicator>(comm::Communicator&)> around = {};
};

/// Calls body on every rank at the same time and returns when all have ended. Each rank is a thread of this process with its
/// share of the cores; one rank alone runs on the calling thread. Under mpiexec or srun this process is one of the ranks. The
/// first error of a rank ends the others and is thrown. Throws UserError when the number of ranks or threads is out of range, or
/// given under mpiexec.
void run_on_ranks(const RankOptions& options, const std::function<void(Session&)>& body);
/// How many ranks a command that looks at the machine runs on.
struct RankCount {
  std::int64_t to_start;  ///< for RankOptions
  std::int64_t total;
};
/// As the user says, else one a core; under mpiexec or srun those that it has started.
RankCount rank_count(const std::optional<std::int64_t>& asked);

}  // namespace lockstep::app
