#include "app/parameter_server/roles.h"

#include <fmt/format.h>

#include "app/settings/choices.h"
#include "train/replicas.h"
#include "train/server/worker_side.h"
#include "train/stop_signal.h"

namespace lockstep::app {
namespace {

bool has_servers(const RunConfig& config) { return config.train.backend == BackendKind::ps; }

train::ServerMode mode_of(const RunConfig& config) { return config.parallel.ps.value_or(train::ServerMode::gradients); }

std::vector<Problem> check_without_servers(const RunConfig& config) {
  std::vector<Problem> problems;
  const auto refuse = [&](const std::string& name, std::string_view value) {
    problems.push_back({fmt::format("{} = {}: there are no parameter servers with train.backend = {}", name, value,
                                    word_of(config.train.backend)),
                        fmt::format("train.backend=ps, or {}=null", name)});
  };
  if (config.parallel.servers) refuse("parallel.servers", std::to_string(*config.parallel.servers));
  if (config.parallel.ps) refuse("parallel.ps", word_of(*config.parallel.ps));
  if (config.parallel.staleness) refuse("parallel.staleness", std::to_string(*config.parallel.staleness));
  return problems;
}

}  // namespace

std::int64_t servers_of(const RunConfig& config) { return has_servers(config) ? config.parallel.servers.value_or(1) : 0; }

std::int64_t workers_of(const RunConfig& config, std::int64_t ranks) { return ranks - servers_of(config); }

std::vector<Problem> check_servers(const RunConfig& config) {
  if (!has_servers(config)) return check_without_servers(config);
  std::vector<Problem> problems;
  const bool async = mode_of(config) == train::ServerMode::async;
  if (config.parallel.staleness && !async) {
    problems.push_back({fmt::format("parallel.staleness = {}: with parallel.ps = {} all workers wait for each other",
                                    *config.parallel.staleness, word_of(mode_of(config))),
                        "parallel.ps=async, or parallel.staleness=null"});
  }
  if (config.parallel.reduce == layout::ReduceEvery::microbatch) {
    problems.push_back({"parallel.reduce = microbatch: parameter servers get one gradient a step", "parallel.reduce=step"});
  }
  if (async && config.data.io == DataIo::readers) {
    problems.push_back(
        {"data.io = readers: with parallel.ps = async the ranks that share a reader would wait for each other", "data.io=files"});
  }
  if (config.parallel.tp > 1) {
    problems.push_back(
        {fmt::format("parallel.tp = {}: parameter servers serve workers that have whole layers", config.parallel.tp),
         "train.backend=DDP, or parallel.tp=1"});
  }
  if (config.parallel.pp > 1) {
    problems.push_back({fmt::format("parallel.pp = {}: parameter servers serve workers that have all layers", config.parallel.pp),
                        "train.backend=DDP, or parallel.pp=1"});
  }
  if (config.parallel.cp > 1) {
    problems.push_back(
        {fmt::format("parallel.cp = {}: parameter servers serve workers that have whole sequences", config.parallel.cp),
         "train.backend=DDP, or parallel.cp=1"});
  }
  if (config.parallel.sequence) {
    problems.push_back({"parallel.sequence = true: workers of parameter servers have whole sequences",
                        "train.backend=DDP, or parallel.sequence=false"});
  }
  if (config.train.dump_step) {
    problems.push_back(
        {fmt::format("train.dump_step = {}: with parameter servers no rank has the whole gradient", *config.train.dump_step),
         "train.backend=DDP, or train.dump_step=null"});
  }
  return problems;
}

std::vector<Problem> check_roles(const RunConfig& config, std::int64_t ranks) {
  const std::int64_t servers = servers_of(config);
  if (servers < ranks || ranks < 1) return {};
  return {{fmt::format("parallel.servers = {}: of {} rank{} none is left to train", servers, ranks, ranks == 1 ? "" : "s"),
           fmt::format("start at least {} ranks (--ranks {} or mpirun -n {}), of which {} train{}", servers + 1, servers + 2,
                       servers + 2, 2, servers > 1 ? ", or set fewer servers" : "")}};
}

Roles::Roles(const RunConfig& config, comm::Communicator& world)
    : world_(world),
      servers_(static_cast<int>(servers_of(config))),
      workers_(world.size() - servers_),
      mode_(mode_of(config)),
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
