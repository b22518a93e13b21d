// `lockstep plan check RUN...`: what the planner says of a run, beside what the run measured.

#include <fmt/format.h>
#include <unistd.h>

#include <optional>
#include <string>
#include <vector>

#include "app/cli/process.h"
#include "app/folder/answer_line.h"
#include "app/folder/runs_in.h"
#include "app/plan/predicted_run.h"
#include "app/plan/prediction_history.h"
#include "app/plan/questions.h"
#include "app/plan/run_prediction.h"
#include "app/start/session.h"
#include "base/error.h"
#include "base/text/visible.h"
#include "base/units.h"
#include "io/temporary_folder.h"
#include "lab/machine_probe.h"

namespace lockstep::app {
namespace {

/// This host, as many ranks at a time as the run had.
planner::Machine measured_now(const MeasuredRun& run) {
  planner::Machine machine;
  const bool takes_files = ::access(run.folder.c_str(), W_OK) == 0;  // which the probe of the disk makes
  const lab::ProbeOptions options{.folder = takes_files ? run.folder : io::temporary_folder()};
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

/// The runs of the folders. Throws UserError with every folder that has none, and every run that cannot be checked.
std::vector<MeasuredRun> read_all(const std::vector<std::string>& folders) {
  std::vector<MeasuredRun> runs;
  std::vector<Problem> problems;
  for (const std::string& folder : folders) {
    std::vector<io::Path> found = runs_in(folder);
    if (found.empty()) found.emplace_back(folder);  // read_run says what is missing
    for (const io::Path& run : found) {
      try {
        runs.push_back(read_run(run));
      } catch (const UserError& error) {
        problems.insert(problems.end(), error.problems().begin(), error.problems().end());
      }
    }
  }
  if (!problems.empty()) throw UserError(std::move(problems));
  return runs;
}

Table figures_table() {
  return Table(
      {{"run", "", ""}, {"figure"}, {"predicted", "predicted"}, {"measured", "measured"}, {"error", "error", "{:+.1f} %", 100}});
}

void add_figures(Table& table, const MeasuredRun& run, const RunComparison& comparison) {
  const auto row = [&](const ComparedFigure& figure, const auto& text) {
    const std::optional<double> error = figure.error();
    table.row({run.folder.string(),
               figure.name,
               {figure.predicted, text(figure.predicted)},
               {figure.measured, text(figure.measured)},
               error ? Cell(*error) : Cell(nullptr, "")});
  };
  for (const ComparedFigure& figure : comparison.memory)
    row(figure, [](double bytes) { return format_bytes(static_cast<std::uint64_t>(bytes)); });
  for (const ComparedFigure& figure : comparison.seconds) row(figure, format_seconds);
}

}  // namespace

int plan_check(const Arguments& arguments) {
  std::vector<std::string> folders;
  std::string named;
  AnswerLine line(
      "plan check",
      "Runs that have trained, predicted for their layouts and held against what they measured: memory by owner, and the "
      "parts of a step. Errors are kept in predictions.jsonl beside a run's folder (runs/predictions.jsonl of runs/first), "
      "by machine.");
  line.positionals("RUN", folders, "folders of runs, or of many: runs stands for all runs in it");
  line.option("--machine", named, "FILE",
              "that the runs had, as doctor --machine-file writes it (default: this machine, measured for some seconds)");
  line.ask_csv();
  line.note("examples:\n  lockstep plan check runs/first --machine here.toml\n  lockstep plan check runs --csv --out errors.csv");
  if (!line.read(arguments)) return 0;
  std::vector<MeasuredRun> runs;
  line.collect([&] { runs = read_all(folders); });
  line.check();
  Answer answer;
  Table figures = figures_table(), facts = Table::of_keys({"run", "machine", "layout", "lines", "beside_bytes"});
  for (const MeasuredRun& run : runs) {
    const planner::Machine machine = machine_of(run, named);
    const RunComparison comparison = compare(run, machine);
    const std::string folder = run.folder.string();
    Table own = figures_table();
    add_figures(own, run, comparison);
    add_figures(figures, run, comparison);
    facts.row({folder, machine.name, comparison.layout, run.lines, run.resources.beside});
    answer.say(fmt::format("{}{} on {}: {}, {} lines of metrics\n{}", answer.text().empty() ? "" : "\n", visible(folder),
                           visible(machine.name), comparison.layout, run.lines, own.text()));
    if (run.resources.beside > 0) {
      answer.say(fmt::format("batches and text samples took {} besides\n",
                             format_bytes(static_cast<std::uint64_t>(run.resources.beside))));
    }
    answer.say(keep_errors(run, machine, comparison) + "\n");
    line.show(answer);
  }
  answer.rows("figures", figures);
  answer.rows("runs", facts);
  line.print(answer);
  return 0;
}

}  // namespace lockstep::app
