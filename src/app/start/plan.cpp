#include "app/start/plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <limits>

#include "app/cli/process.h"
#include "app/settings/pipeline_settings.h"
#include "app/settings/run_layout.h"
#include "app/start/session.h"
#include "arch/flops.h"
#include "arch/shard_rules.h"
#include "base/error.h"
#include "base/number_text.h"
#include "comm/agreement.h"
#include "comm/text.h"
#include "layout/pipeline/schedules.h"
#include "layout/pipeline/split.h"

namespace lockstep::app {
namespace {

// What is given, else as the ranks were started. Collective.
int host_size(const RunConfig& config, comm::Communicator& trainers) {
  const std::vector<std::string> hosts = comm::all_texts(trainers, host_name());
  const std::optional<int> given = given_ranks_per_host(config);
  return given ? *given : ranks_per_host(hosts);
}

/// Reads the table that the schedule names, where it is in a file.
void set_table(layout::ParallelPlan& plan, const RunConfig& config, const std::string& text, const io::Path& file) {
  plan.table = layout::read_action_table(text, file.string());
  int most = 1, least = plan.table->map.stages();
  for (int rank = 0; rank < plan.table->map.ranks(); ++rank) {
    const int own = static_cast<int>(plan.table->map.stages_of(rank).size());
    most = std::max(most, own);
    least = std::min(least, own);
  }
  plan.chunks = most;
  const std::optional<std::int64_t>& asked = config.parallel.virtual_stages;
  if (!asked || (most == *asked && least == *asked)) return;
  throw UserError(fmt::format("parallel.virtual_stages = {}: in the table of {} ranks have {} stage{}", *asked, file.string(),
                              most == least ? std::to_string(most) : fmt::format("{} to {}", least, most), most == 1 ? "" : "s"),
                  "parallel.virtual_stages=null leaves it to the table");
}

/// So that all ranks compute as much; as rank 0 works it out. Collective.
std::vector<std::int64_t> agreed_split(const layout::ParallelPlan& plan, const arch::ModelConfig& model, std::int64_t positions,
                                       comm::Communicator& trainers) {
  const std::string own = layout::to_string(arch::balanced(plan, model, positions).split);
  return layout::split_from(comm::lead_text(trainers, own)).value();
}

/// The plan without the table of its schedule, unchecked.
layout::ParallelPlan laid_out(const RunConfig& config, std::int64_t trainers, int per_host, bool on_host) {
  layout::ParallelPlan plan = layout_of(config, trainers);
  place_offloaded(plan, config.memory, on_host);
  plan.ranks_per_host = per_host;
  return plan;
}

/// Throws UserError for a plan that the ranks cannot have.
void demand_layout(layout::ParallelPlan& plan, const RunConfig& config, const arch::ModelConfig& model, std::int64_t trainers) {
  if (std::vector<Problem> problems = layout::check(plan, arch::plan_limits(model, config.model.block_size), trainers);
      !problems.empty())
    throw UserError(std::move(problems));
  // Weights that lie whole in memory are read there: tiles would only make products smaller.
  if (plan.parameters.cut == layout::CutOver::none && plan.parameters.tier == layout::Tier::device) plan.tiles = {};
}

}  // namespace

int ranks_per_host(const std::vector<std::string>& hosts) {
  std::size_t each = 0;
  for (std::size_t first = 0, end = 0; first < hosts.size(); first = end) {
    while (end < hosts.size() && hosts[end] == hosts[first]) ++end;
    if (each != 0 && end - first != each) return 0;
    each = end - first;
  }
  return static_cast<int>(each);
}

std::optional<int> given_ranks_per_host(const RunConfig& config) {
  if (config.parallel.ranks_per_host) return static_cast<int>(*config.parallel.ranks_per_host);
  const char* given = std::getenv("NGPU_PER_HOST");
  if (given == nullptr || std::string_view(given).empty() || std::string_view(given) == "0") return std::nullopt;
  if (const std::optional<int> ranks = number_from<int>(given); ranks && *ranks > 0) return ranks;
  throw UserError(fmt::format("NGPU_PER_HOST={} is not a number of ranks", given), "unset it, or give a number from 1 on");
}

std::vector<Problem> check_layout(const RunConfig& config, std::int64_t ranks) {
  const std::int64_t trainers = workers_of(config, ranks);
  if (trainers < 1) return {};
  layout::ParallelPlan plan = layout_of(config, trainers);
  const std::optional<int> host = given_ranks_per_host(config);
  plan.ranks_per_host = host.value_or(plan.ranks());
  // Which ranks exchange heads follows from the hosts, which are known when the ranks have started.
  if (!host && plan.context == layout::ContextMethod::ulysses_ring) plan.context = layout::ContextMethod::ring;
  std::vector<Problem> problems;
  if (const auto file = schedule_file(plan.schedule)) {
    if (!is_first_process()) return {};  // the file is the first one's
    try {
      set_table(plan, config, read_schedule(*file), *file);
    } catch (const UserError& error) {
      problems = error.problems();
      plan.schedule = "1f1b";  // the rest is checked with a sound one
      plan.chunks = 1;
    }
  }
  const arch::ModelConfig model = model_config(config, std::numeric_limits<std::int32_t>::max());
  for (Problem& problem : layout::check(plan, arch::plan_limits(model, model.block_size), trainers))
    problems.push_back(std::move(problem));
  return problems;
}

std::vector<Problem> check_ranks(const RunConfig& config, std::int64_t ranks) {
  std::vector<Problem> problems = check_roles(config, ranks);
  for (Problem& problem : check_layout(config, ranks)) problems.push_back(std::move(problem));
  return problems;
}

layout::ParallelPlan plan_of(const RunConfig& config, const arch::ModelConfig& model, std::int64_t trainers, int per_host,
                             bool on_host) {
  layout::ParallelPlan plan = laid_out(config, trainers, per_host, on_host);
  if (const auto file = schedule_file(plan.schedule)) set_table(plan, config, read_schedule(*file), *file);
  demand_layout(plan, config, model, trainers);
  return arch::balanced(std::move(plan), model, config.model.block_size);
}

layout::ParallelPlan plan_of(const RunConfig& config, const arch::ModelConfig& model, comm::Communicator& trainers,
                             Device device) {
  layout::ParallelPlan plan = laid_out(config, trainers.size(), host_size(config, trainers), device.is_host());
  if (const auto file = schedule_file(plan.schedule)) {
    std::string text;
    comm::together(trainers, [&] {
      if (trainers.rank() == 0) text = read_schedule(*file);
    });
    set_table(plan, config, comm::lead_text(trainers, std::move(text)), *file);
  }
  demand_layout(plan, config, model, trainers.size());
  if (plan.pp > 1 && plan.split.empty()) plan.split = agreed_split(plan, model, config.model.block_size, trainers);
  return plan;
}

}  // namespace lockstep::app
