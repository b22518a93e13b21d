// `lockstep plan simulate RECIPE`: a recipe's step on a machine, pass by pass.

#include <fmt/format.h>

#include <algorithm>

#include "app/cli/command_line.h"
#include "app/folder/output_file.h"
#include "app/plan/machine_file.h"
#include "app/plan/named_model.h"
#include "app/plan/predicted_run.h"
#include "app/plan/questions.h"
#include "app/plan/recipe_layout.h"
#include "base/checked.h"
#include "base/error.h"
#include "base/terminal.h"
#include "base/text/visible.h"
#include "base/units.h"
#include "io/file.h"
#include "planner/trace.h"

namespace lockstep::app {
namespace {

struct Options {
  std::string recipe, machine = "a100", trace;
  std::int64_t nodes = 0;
};

bool parse(const Arguments& arguments, Options& options) {
  CommandLine line(
      "plan simulate",
      "A recipe's step on a machine, without either: passes of every rank of the pipeline, and how memory goes up and "
      "down.");
  line.positional("RECIPE", options.recipe, "a .toml file, as lockstep train --config takes it");
  line.option("--machine", options.machine, "NAME|FILE", "a100, h100, h200, b200, or machine.toml");
  line.option("--nodes", options.nodes, "N", "of the machine; 0: as many as the recipe's degrees need");
  line.option("--trace", options.trace, "OUT.json", "the step for chrome://tracing or Perfetto");
  line.note("example:\n  lockstep plan simulate winner.toml --machine a100 --nodes 128 --trace step.json");
  return line.parse(arguments);
}

/// As many nodes as the degrees need, the last one perhaps not whole: then one, of as many devices.
void fit_machine(planner::Machine& machine, const RunConfig& config) {
  const RunConfig::Parallel& parallel = config.parallel;
  const std::int64_t ranks = parallel.dp.value_or(1) * parallel.tp * parallel.cp * parallel.pp;
  machine.devices = std::min(machine.devices, ranks);
  machine.nodes = div_up(ranks, machine.devices);
}

void print_memory(const planner::SimulatedStep& step) {
  std::vector<Series> series;
  for (const std::size_t rank : {std::size_t{0}, step.memory.size() - 1}) {
    Series one{.name = fmt::format("pipeline rank {}", rank), .x = {}, .y = {}};
    for (const planner::MemoryPoint& point : step.memory[rank]) {
      one.x.push_back(point.seconds);
      one.y.push_back(point.bytes / 0x1p30);
    }
    series.push_back(std::move(one));
    if (step.memory.size() == 1) break;
  }
  fmt::print("{}", plot("GiB of a device", "seconds", series));
}

/// What the rank with the most has where, and whether it fits.
void print_places(const planner::SimulatedStep& step, const planner::Machine& machine) {
  double device = 0;
  std::int64_t host = 0, disk = 0;
  for (const std::vector<planner::MemoryPoint>& curve : step.memory)
    device = std::max(device, std::ranges::max_element(curve, {}, &planner::MemoryPoint::bytes)->bytes);
  for (const auto& [in_host, on_disk] : step.elsewhere) {
    host = std::max(host, in_host);
    disk = std::max(disk, on_disk);
  }
  const auto text = [](double bytes) { return format_bytes(static_cast<std::uint64_t>(bytes)); };
  const auto line = [&](const char* place, double bytes, double room) {
    const bool fits = room <= 0 || bytes <= room;
    fmt::print("{}: {} at the most{}{}\n", place, text(bytes), room > 0 ? fmt::format(" of {}", text(room)) : "",
               fits ? "" : ", which does not fit");
  };
  line("memory of a device", device, machine.usable_memory());
  if (host > 0)
    line("of its node, for all its devices", static_cast<double>(host) * static_cast<double>(machine.devices),
         machine.host_memory);
  if (disk > 0) line("on the disks of its node", static_cast<double>(disk) * static_cast<double>(machine.devices), 0);
}

}  // namespace

int plan_simulate(const Arguments& arguments) {
  Options options;
  if (!parse(arguments, options)) return 0;
  if (!options.recipe.ends_with(".toml"))
    throw UserError(fmt::format("{}: not a recipe", options.recipe), "a .toml file, as plan search --out F.toml writes it");
  if (options.nodes < 0) throw UserError(fmt::format("--nodes {}: must be 0 or above", options.nodes), "--nodes 16");
  demand_output("--trace", options.trace, is_own_trace);
  const NamedModel recipe = named_model(options.recipe, 0);
  planner::Machine machine = named_machine(options.machine, options.nodes);
  if (options.nodes == 0) fit_machine(machine, recipe.config);
  const planner::Work work(recipe.model(), recipe.config.model.block_size, machine, system_of(recipe.config));
  const planner::Candidate candidate = candidate_of(recipe.config, work);
  const planner::SimulatedStep step = simulate_step(work, candidate);
  fmt::print("{} on {}: {} x {} devices, {}\n", visible(options.recipe), visible(machine.name), machine.nodes, machine.devices,
             layout::describe(candidate.plan));
  fmt::print("step {}: passes {} (ranks of the pipeline wait {:.1f} %), sums over ranks that nothing hides {}, update {}\n",
             format_seconds(step.seconds()), format_seconds(step.timeline.makespan), 100 * bubble(step.timeline),
             format_seconds(step.end.replicas), format_seconds(step.end.optimizer));
  print_places(step, machine);
  print_memory(step);
  if (!options.trace.empty()) io::replace_file(options.trace, chrome_trace(step).text());
  return 0;
}

}  // namespace lockstep::app
