// `lockstep plan simulate RECIPE`: a recipe's step on a machine, pass by pass.

#include <fmt/format.h>

#include <algorithm>

#include "app/folder/answer_line.h"
#include "app/plan/machine_file.h"
#include "app/plan/named_model.h"
#include "app/plan/predicted_run.h"
#include "app/plan/questions.h"
#include "app/plan/recipe_layout.h"
#include "app/settings/run_layout.h"
#include "base/checked.h"
#include "base/error.h"
#include "base/terminal.h"
#include "base/text/visible.h"
#include "base/units.h"
#include "io/file.h"
#include "planner/trace.h"

namespace lockstep::app {
namespace {

/// As many nodes as the degrees need, the last one perhaps not whole: then one, of as many devices.
void fit_machine(planner::Machine& machine, const RunConfig& config) {
  const std::int64_t ranks = config.parallel.dp.value_or(1) * ranks_of_model(config);
  machine.devices = std::min(machine.devices, ranks);
  machine.nodes = div_up(ranks, machine.devices);
}

std::string memory_curves(const planner::SimulatedStep& step) {
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
  return plot("GiB of a device", "seconds", series);
}

/// What the rank with the most has where, and whether it fits.
void say_places(const planner::SimulatedStep& step, const planner::Machine& machine, Answer& answer) {
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
    answer.say(fmt::format("{}: {} at the most{}{}\n", place, text(bytes), room > 0 ? fmt::format(" of {}", text(room)) : "",
                           fits ? "" : ", which does not fit"));
  };
  answer.facts({{"device_bytes", device}, {"host_bytes", host}, {"disk_bytes", disk}});
  line("memory of a device", device, machine.usable_memory());
  if (host > 0)
    line("of its node, for all its devices", static_cast<double>(host) * static_cast<double>(machine.devices),
         machine.host_memory);
  if (disk > 0) line("on the disks of its node", static_cast<double>(disk) * static_cast<double>(machine.devices), 0);
}

}  // namespace

int plan_simulate(const Arguments& arguments) {
  std::string file, named = "a100", trace, system{planner::own_system.name};
  std::int64_t nodes = 0;
  AnswerLine line(
      "plan simulate",
      "A recipe's step on a machine, without either: passes of every rank of the pipeline, and how memory goes up and "
      "down.");
  line.positional("RECIPE", file, "a .toml file, as lockstep train --config takes it, or a run's folder");
  line.option("--machine", named, "NAME|FILE", machine_names());
  line.count("--nodes", nodes, "N", "of the machine; 0: as many as the recipe's degrees need", 0);
  line.choice("--system", system, system_names(), "whose kernels, overlap and memory: docs/planner.md tells of each");
  line.option("--trace", trace, "OUT.json", "the step for chrome://tracing or Perfetto");
  line.note("example:\n  lockstep plan simulate winner.toml --machine a100 --nodes 128 --trace step.json");
  if (!line.read(arguments)) return 0;
  line.demand(file.ends_with(".toml") || io::exists(io::Path(file) / "config.toml"), fmt::format("{}: not a recipe", file),
              "a .toml file, as plan search --out F.toml writes it");
  line.collect([&] { demand_output("--trace", trace, is_own_trace); });
  line.check();
  const NamedModel recipe = named_model(file, 0);
  planner::Machine machine = named_machine(named, nodes);
  if (nodes == 0) fit_machine(machine, recipe.config);
  const planner::Work work(recipe.model(), recipe.config.model.block_size, machine,
                           system_of(recipe.config, *planner::find_system(system)));
  const planner::Candidate candidate = candidate_of(recipe.config, work);
  const planner::SimulatedStep step = simulate_step(work, candidate);
  const std::string layout = layout::describe(candidate.plan);
  Answer answer;
  answer.say(fmt::format("{} on {}: {} x {} devices, {}\n", visible(file), visible(machine.name), machine.nodes, machine.devices,
                         layout));
  answer.say(recipe.note);
  answer.say(caveat(work));
  answer.say(
      fmt::format("step {}: passes {} (ranks of the pipeline wait {:.1f} %), sums over ranks that nothing hides {}, update {}\n",
                  format_seconds(step.seconds()), format_seconds(step.timeline.makespan), 100 * bubble(step.timeline),
                  format_seconds(step.end.replicas), format_seconds(step.end.optimizer)));
  answer.facts({{"machine", machine.name},
                {"system", system},
                {"vocabulary", work.model.vocabulary},
                {"ranks", machine.ranks()},
                {"layout", layout},
                {"step_seconds", step.seconds()},
                {"passes", step.timeline.makespan},
                {"bubble", bubble(step.timeline)},
                {"replicas", step.end.replicas},
                {"optimizer", step.end.optimizer}});
  say_places(step, machine, answer);
  answer.say(memory_curves(step));
  if (!trace.empty()) io::replace_file(trace, chrome_trace(step).text());
  line.print(answer);
  return 0;
}

}  // namespace lockstep::app
