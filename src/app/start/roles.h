#pragma once

// How the ranks of a run divide its work: all train, or with train.backend=ps the last ones serve the parameters to the others.

#include <cstdint>
#include <memory>
#include <vector>

#include "app/settings/run_config.h"
#include "app/start/session.h"
#include "train/engine_config.h"
#include "train/server/server_side.h"
#include "train/updater.h"

namespace lockstep::app {

class Roles {
 public:
  /// `world` outlives it. Collective. Throws UserError when no rank would train.
  Roles(const RunConfig& config, comm::Communicator& world);

  /// This rank serves.
  bool serves() const { return world_.rank() >= workers_; }
  /// The ranks that do what this one does: those that train, or those that serve.
  comm::Communicator& group() const { return group_ ? *group_ : world_; }
  /// The servers of this run; none: all train.
  std::optional<train::ParameterServers> servers() const;
  /// Makes the updater of a rank that trains; the engine's settings have servers().
  train::UpdaterFactory updater() const;
  /// The memory of this server, with settings that have servers().
  Ledger server_memory(const train::EngineConfig& settings, Session& session, ops::Ops& ops) const;
  /// What a rank that serves does until all others have left.
  void serve(const train::EngineConfig& settings, Session& session, ops::Ops& ops, double started) const;

 private:
  comm::Communicator& world_;
  int servers_, workers_;
  train::ServerMode mode_ = train::ServerMode::gradients;
  std::optional<std::int64_t> staleness_;
  std::unique_ptr<comm::Communicator> group_;  ///< null: all train
};

}  // namespace lockstep::app
