#pragma once

// The server's side of training on parameter servers: its part of the weights and of the optimizer's state, and its answers to
// pushes of workers.

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "device/runtime.h"
#include "parallel/server/server.h"
#include "train/optimizer/optimizer.h"
#include "train/server/server_rank_memory.h"

namespace lockstep::train {

struct ServerOptions {
  std::optional<std::int64_t> staleness;               ///< async: steps that a worker may be ahead of the slowest; none: any
  std::function<int()> stop_cause = [] { return 0; };  ///< a cause to stop (train::StopCause) that this rank has found, or 0
};

class ServerSide {
 public:
  /// Declares everything, allocates nothing. The first ranks of `world` are the workers, the others are the servers of
  /// config.servers. `servers` is the group of the servers. The references outlive this.
  ServerSide(const EngineConfig& config, const ServerOptions& options, Runtime& runtime, ops::Ops& ops, comm::Communicator& world,
             comm::Communicator& servers);
  ServerSide(const ServerSide&) = delete;
  ServerSide& operator=(const ServerSide&) = delete;

  /// Bytes that commit() takes.
  Ledger ledger() const { return memory_.ledger(ops_.workspace_bytes()); }
  void commit();
  /// Serves until every worker has left.
  void run();

 private:
  void pushed(const parallel::Server::Visit& visit);
  void update_together(const parallel::Server::Visit& visit);
  void average();
  void update_apart(const parallel::Server::Visit& visit);
  void release();
  double norm();
  /// Returns whether the update was made.
  bool update(int pushed_by, const UpdateNumbers& numbers);
  /// The number of updates that made the weights.
  std::int64_t updates() { return server_.state(0).updates(); }
  void load(const parallel::Server::Visit& visit);
  std::size_t workers() const { return progress_.size(); }

  EngineConfig config_;
  ServerOptions options_;
  Runtime& runtime_;
  ops::Ops& ops_;
  comm::Communicator& world_;
  comm::Communicator& servers_;
  ServerRankMemory memory_;
  ServerMode mode_;
  std::unique_ptr<Optimizer> optimizer_;
  parallel::Server server_;
  std::vector<int> all_workers_;
  std::size_t arrived_ = 0;
  bool changed_ = false;  ///< whether one of the workers that have arrived changed the weights

  /// How far a worker is, where workers do not wait for each other.
  struct Progress {
    std::int64_t steps = 0;            ///< done by the worker
    std::int64_t pulled = 0;           ///< the number of updates in the weights that it has
    double loss_sum = 0, targets = 0;  ///< of its last step
    bool waits = false;                ///< for the answer to its push
  };
  std::vector<Progress> progress_;
  parallel::Answer said_;
};

}  // namespace lockstep::train
