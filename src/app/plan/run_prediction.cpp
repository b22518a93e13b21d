#include "app/plan/run_prediction.h"

#include <fmt/format.h>

#include "app/plan/machine_file.h"
#include "app/plan/prediction_history.h"
#include "base/error.h"
#include "base/units.h"

namespace lockstep::app {
namespace {

std::string shown(const ComparedFigure& figure, const std::string& predicted, const std::string& measured) {
  return fmt::format("{} {} predicted, {} measured ({:+.1f} %)", figure.name, predicted, measured,
                     100 * figure.error().value_or(0));
}

}  // namespace

planner::Machine machine_for(const MeasuredRun& run, const std::string& named) {
  const Resources& had = run.resources;
  if (had.ranks_per_host == 0 || had.ranks % had.ranks_per_host != 0) {
    throw UserError(fmt::format("{}: hosts had different numbers of ranks", run.folder.string()), "a run with as many on each");
  }
  planner::Machine machine = named_machine(named, had.ranks / had.ranks_per_host);
  if (had.device == "cpu") machine = planner::divided(machine, had.ranks_per_host);
  machine.devices = had.ranks_per_host;
  if (std::vector<Problem> problems = check(machine); !problems.empty()) throw UserError(std::move(problems));
  return machine;
}

std::string prediction_line(const io::Path& folder, const std::string& named) {
  try {
    const MeasuredRun run = read_run(folder);
    const planner::Machine machine = machine_for(run, named);
    const RunComparison comparison = compare(run, machine);
    keep_errors(run, machine, comparison);
    const ComparedFigure &step = comparison.seconds.back(), &memory = comparison.memory.back();
    const auto bytes = [](double number) { return format_bytes(static_cast<std::uint64_t>(number)); };
    return fmt::format("{}; {}", shown(step, format_seconds(step.predicted), format_seconds(step.measured)),
                       shown(memory, bytes(memory.predicted), bytes(memory.measured)));
  } catch (const UserError& error) {
    return fmt::format("none: {}", error.problems().front().message);
  }
}

}  // namespace lockstep::app
