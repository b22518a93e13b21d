// `lockstep plan check RUN`: what the planner says of a run, beside what the run measured.

#include <fmt/format.h>

#include <optional>

#include "app/cli/command_line.h"
#include "app/cli/process.h"
#include "app/plan/predicted_run.h"
#include "app/plan/prediction_history.h"
#include "app/plan/questions.h"
#include "app/plan/run_prediction.h"
#include "app/start/session.h"
#include "base/error.h"
#include "base/text/visible.h"
#include "base/units.h"
#include "lab/machine_probe.h"

namespace lockstep::app {
namespace {

struct Options {
  std::string run, machine;
};

bool parse(const Arguments& arguments, Options& options) {
  CommandLine line(
      "plan check",
      "A run that has trained, predicted for its layout and held against what it measured: memory by owner, and the parts "
      "of a step. Errors are kept in predictions.jsonl beside the run's folder (runs/predictions.jsonl of runs/first), by "
      "machine.");
  line.positional("RUN", options.run, "a run's folder");
  line.option("--machine", options.machine, "FILE",
              "that the run had, as doctor --machine-file writes it (default: this machine, measured for some seconds)");
  line.note("example:\n  lockstep plan check runs/first --machine here.toml");
  return line.parse(arguments);
}

/// This host, as many ranks at a time as the run had.
planner::Machine measured_now(const MeasuredRun& run) {
  planner::Machine machine;
  const lab::ProbeOptions options{.folder = run.folder};
  run_on_ranks({.ranks = run.resources.ranks, .threads = run.resources.threads}, [&](Session& session) {
    const planner::Machine probed = lab::probe_machine(options, session.runtime(), session.world(), session.world());
    if (session.lead()) machine = probed;
  });
  machine.name = fmt::format("this machine ({})", host_name());
  return machine;
}

planner::Machine machine_of(const MeasuredRun& run, const std::string& named) {
  if (!named.empty()) return machine_for(run, named);
  if (run.resources.ranks == run.resources.ranks_per_host && run.resources.device == "cpu") return measured_now(run);
  throw UserError(fmt::format("{}: the run had more than this host's processor", run.folder.string()),
                  "--machine FILE, as lockstep doctor --machine-file FILE writes it there");
}

void print(const RunComparison& comparison) {
  const auto row = [](const std::string& name, const std::string& predicted, const std::string& measured,
                      std::optional<double> error) {
    const std::string off = error ? fmt::format("{:+.1f} %", 100 * *error) : "";
    fmt::print("  {:<22} {:>12} {:>12} {:>9}\n", name, predicted, measured, off);
  };
  fmt::print("  {:<22} {:>12} {:>12} {:>9}\n", "", "predicted", "measured", "error");
  for (const ComparedFigure& figure : comparison.memory) {
    row(figure.name, format_bytes(static_cast<std::uint64_t>(figure.predicted)),
        format_bytes(static_cast<std::uint64_t>(figure.measured)), figure.error());
  }
  for (const ComparedFigure& figure : comparison.seconds)
    row(figure.name, format_seconds(figure.predicted), format_seconds(figure.measured), figure.error());
}

}  // namespace

int plan_check(const Arguments& arguments) {
  Options options;
  if (!parse(arguments, options)) return 0;
  const MeasuredRun run = read_run(options.run);
  const planner::Machine machine = machine_of(run, options.machine);
  const RunComparison comparison = compare(run, machine);
  fmt::print("{} on {}: {}, {} lines of metrics\n", visible(options.run), visible(machine.name), comparison.layout, run.lines);
  print(comparison);
  if (run.resources.beside > 0) {
    fmt::print("  batches and text samples took {} besides\n", format_bytes(static_cast<std::uint64_t>(run.resources.beside)));
  }
  fmt::print("{}\n", keep_errors(run, machine, comparison));
  return 0;
}

}  // namespace lockstep::app
