#include "app/settings/run_layout.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "app/settings/choices.h"
#include "layout/plan_fields.h"

namespace lockstep::app {
namespace {

bool has_servers(const RunConfig& config) { return config.train.backend == BackendKind::ps; }

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

std::int64_t ranks_of_model(const RunConfig& config) { return config.parallel.tp * config.parallel.cp * config.parallel.pp; }

train::ServerMode server_mode(const RunConfig& config) { return config.parallel.ps.value_or(train::ServerMode::gradients); }

std::vector<Problem> check_servers(const RunConfig& config) {
  if (!has_servers(config)) return check_without_servers(config);
  std::vector<Problem> problems;
  const bool async = server_mode(config) == train::ServerMode::async;
  if (config.parallel.staleness && !async) {
    problems.push_back({fmt::format("parallel.staleness = {}: with parallel.ps = {} all workers wait for each other",
                                    *config.parallel.staleness, word_of(server_mode(config))),
                        "parallel.ps=async, or parallel.staleness=null"});
  }
  if (async && config.data.io == DataIo::readers) {
    problems.push_back(
        {"data.io = readers: with parallel.ps = async the ranks that share a reader would wait for each other", "data.io=files"});
  }
  layout::PlanWish wish = plan_wish(config);
  wish.memory.zero = zero_level(config);
  std::ranges::move(layout::check_served(wish, layout::settings_grammar(), config.adapter.rank > 0),
                    std::back_inserter(problems));
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

layout::ParallelPlan layout_of(const RunConfig& config, std::int64_t trainers) {
  layout::PlanWish wish = plan_wish(config);
  wish.memory.zero = zero_level(config);
  layout::ParallelPlan plan = layout::plan_of(wish, trainers);
  plan.attention = attention_of(config);
  return plan;
}

int replicas_of(const RunConfig& config, std::int64_t ranks) { return layout_of(config, workers_of(config, ranks)).dp; }

}  // namespace lockstep::app
