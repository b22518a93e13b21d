#pragma once

// Training on parameter servers, a server's side: its part of the weights and moments, and what it does with what workers push.

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "device/runtime.h"
#include "parallel/server/server.h"
#include "tensor/ledger.h"
#include "train/engine_config.h"
#include "train/optimizer.h"
#include "train/served.h"

namespace lockstep::train {

struct ServingOptions {
  ServerMode mode = ServerMode::gradients;
  int servers = 1;
  std::optional<std::int64_t> staleness;          ///< async: steps that a worker may be ahead of the slowest; none: any
  std::function<int()> alarm = [] { return 0; };  ///< a cause to stop (train::StopCause) that this rank has found, or 0
};

class Serving {
 public:
  /// Declares everything, allocates nothing. The first ranks of `world` are the workers, the others the servers, whose group
  /// `servers` is. The references outlive this.
  Serving(const EngineConfig& config, const ServingOptions& options, Runtime& runtime, ops::Ops& ops, comm::Communicator& world,
          comm::Communicator& servers);
  Serving(const Serving&) = delete;
  Serving& operator=(const Serving&) = delete;

  /// Bytes that commit() takes.
  Ledger ledger() const;
  void commit();
  /// Until every worker has left.
  void run();

 private:
  void pushed(const parallel::Server::Visit& visit);
  void update_together(const parallel::Server::Visit& visit);
  void average();
  void update_apart(const parallel::Server::Visit& visit);
  void release();
  double norm();
  void update(const ops::AdamW& rule, std::size_t pushed_by, const UpdateNumbers& numbers);
  void load(const parallel::Server::Visit& visit);
  std::size_t workers() const { return progress_.size(); }

  EngineConfig config_;
  ServingOptions options_;
  Runtime& runtime_;
  ops::Ops& ops_;
  comm::Communicator& world_;
  comm::Communicator& servers_;
  Arena parameter_arena_, optimizer_arena_, gradient_arena_;
  parallel::Server server_;
  ops::StepScalars scalars_;
  std::vector<double> squares_;  ///< [units, workers]
  std::vector<int> everybody_;
  std::size_t arrived_ = 0;

  /// Of a worker, where workers do not wait for each other.
  struct Progress {
    std::int64_t steps = 0;   ///< that it has done
    std::int64_t pulled = 0;  ///< updates in the weights that it has
    std::optional<double> loss;
    bool waits = false;  ///< for the answer to its push
  };
  std::vector<Progress> progress_;
  std::int64_t updates_ = 0;       ///< of the weights in this run
  std::int64_t first_update_ = 0;  ///< before it
  parallel::Answer said_;
};

}  // namespace lockstep::train
