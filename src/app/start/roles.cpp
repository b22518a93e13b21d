#include "app/start/roles.h"

#include "app/settings/run_layout.h"
#include "train/replicas.h"
#include "train/server/worker_side.h"
#include "train/stop_signal.h"

namespace lockstep::app {
Roles::Roles(const RunConfig& config, comm::Communicator& world)
    : world_(world),
      servers_(static_cast<int>(servers_of(config))),
      workers_(world.size() - servers_),
      mode_(server_mode(config)),
      staleness_(config.parallel.staleness) {
  if (std::vector<Problem> problems = check_roles(config, world.size()); !problems.empty()) throw UserError(std::move(problems));
  if (servers_ > 0) group_ = world.split(serves() ? 1 : 0, world.rank());
}

std::optional<train::ParameterServers> Roles::servers() const {
  if (servers_ == 0) return std::nullopt;
  return train::ParameterServers{.mode = mode_, .count = servers_};
}

train::UpdaterFactory Roles::updater() const {
  if (servers_ == 0) return [](const train::UpdaterParts& parts) { return std::make_unique<train::Replicas>(parts); };
  return [this](const train::UpdaterParts& parts) { return train::make_worker_updater(parts, world_); };
}

Ledger Roles::server_memory(const train::EngineConfig& settings, Session& session, ops::Ops& ops) const {
  return train::ServerRankMemory(settings, workers_, group().rank(), session.runtime().device()).ledger(ops.workspace_bytes());
}

void Roles::serve(const train::EngineConfig& settings, Session& session, ops::Ops& ops, double started) const {
  // A signal to this process alone is not the end of it: the workers hear of it.
  std::optional<train::Switches> switches;
  if (session.leads_process()) switches.emplace(train::SwitchOptions{}, started);
  train::ServerOptions options;
  options.staleness = staleness_;
  if (switches) options.stop_cause = [&switches] { return static_cast<int>(switches->stop_cause()); };
  train::ServerSide server(settings, options, session.runtime(), ops, world_, group());
  server.commit();
  server.run();
}

}  // namespace lockstep::app
