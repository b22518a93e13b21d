// `lockstep plan check RUN`: what the planner says of a run, beside what the run measured.

#include <fmt/format.h>

#include <optional>

#include "app/cli/process.h"
#include "app/folder/answer_line.h"
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

Table table_of(const RunComparison& comparison) {
  Table table({{"figure"}, {"predicted", "predicted"}, {"measured", "measured"}, {"error", "error", "{:+.1f} %", 100}});
  const auto row = [&](const ComparedFigure& figure, const auto& text) {
    const std::optional<double> error = figure.error();
    table.row({figure.name,
               {figure.predicted, text(figure.predicted)},
               {figure.measured, text(figure.measured)},
               error ? Cell(*error) : Cell(nullptr, "")});
  };
  for (const ComparedFigure& figure : comparison.memory)
    row(figure, [](double bytes) { return format_bytes(static_cast<std::uint64_t>(bytes)); });
  for (const ComparedFigure& figure : comparison.seconds) row(figure, format_seconds);
  return table;
}

}  // namespace

int plan_check(const Arguments& arguments) {
  std::string folder, named;
  AnswerLine line(
      "plan check",
      "A run that has trained, predicted for its layout and held against what it measured: memory by owner, and the parts "
      "of a step. Errors are kept in predictions.jsonl beside the run's folder (runs/predictions.jsonl of runs/first), by "
      "machine.");
  line.positional("RUN", folder, "a run's folder");
  line.option("--machine", named, "FILE",
              "that the run had, as doctor --machine-file writes it (default: this machine, measured for some seconds)");
  line.ask_csv();
  line.note("example:\n  lockstep plan check runs/first --machine here.toml");
  if (!line.read(arguments)) return 0;
  line.check();
  const MeasuredRun run = read_run(folder);
  const planner::Machine machine = machine_of(run, named);
  const RunComparison comparison = compare(run, machine);
  Answer answer;
  answer.say(
      fmt::format("{} on {}: {}, {} lines of metrics\n", visible(folder), visible(machine.name), comparison.layout, run.lines));
  answer.facts({{"run", folder}, {"machine", machine.name}, {"layout", comparison.layout}, {"lines", run.lines}});
  answer.table("figures", table_of(comparison));
  answer.fact("beside_bytes", run.resources.beside);
  if (run.resources.beside > 0) {
    answer.say(fmt::format("batches and text samples took {} besides\n",
                           format_bytes(static_cast<std::uint64_t>(run.resources.beside))));
  }
  answer.say(keep_errors(run, machine, comparison) + "\n");
  line.print(answer);
  return 0;
}

}  // namespace lockstep::app
