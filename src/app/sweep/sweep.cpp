// `lockstep sweep`: one or a few settings at a time, measured and ranked.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdio>

#include "app/cli/command_line.h"
#include "app/cli/commands.h"
#include "app/folder/folder_owner.h"
#include "app/folder/run_lock.h"
#include "app/folder/text_folder.h"
#include "app/settings/run_config.h"
#include "app/start/resolve.h"
#include "app/start/session.h"
#include "app/sweep/sweep_definition.h"
#include "app/sweep/sweep_plan.h"
#include "app/sweep/sweep_results.h"
#include "app/sweep/sweep_run.h"
#include "base/shell.h"
#include "base/terminal.h"
#include "base/text/visible.h"
#include "base/units.h"
#include "comm/mpi/mpi_job.h"
#include "io/file.h"
#include "io/folder_entries.h"
#include "io/new_folder.h"
#include "lab/collectives/bench_collectives.h"

namespace lockstep::app {
namespace {

constexpr const char* winner_file = "winner.toml";

struct Options {
  std::vector<std::string> files, words;
  std::optional<std::int64_t> ranks;
  std::int64_t steps = 20, repeats = 3;
  std::string out, layouts;
  bool json = false;
  /// Where it tells how it goes.
  std::FILE* told() const { return json ? stderr : stdout; }
};

bool parse(const Arguments& arguments, Options& options) {
  CommandLine line(
      "sweep",
      "Trains short runs that differ in a few settings, in turns (repeat 1 of all, then repeat 2, ...). Ranks them by "
      "throughput, with the loss at equal tokens beside it. Writes the fastest as a recipe. Combinations that cannot be are "
      "left out and named. A sweep that was interrupted goes on with the same command.");
  std::string data;
  line.positional("DATA", data, "folder of prepared text, short for data.dir=DATA", false);
  line.option("--config", options.files, "FILE", "settings of all runs from a TOML file");
  line.overrides(options.words,
                 "a setting of all runs; KEY=a,b,c, KEY=a;b;c or KEY=lo:hi:step: what differs, also bundles (model=a,b); "
                 "ranks=1,2 differs in ranks");
  line.option(
      "--layouts", options.layouts, "LIST",
      "layouts that differ, in the words of lockstep verify --help, with semicolons between; settings may stand among them");
  line.option("--ranks", options.ranks, "N",
              "ranks of every run, each a thread of this process (default: as many as its layout asks for)");
  line.option("--steps", options.steps, "N", "optimizer steps of a run; runs with smaller steps take more, for as many tokens");
  line.option("--repeats", options.repeats, "N", "runs of each combination");
  line.option("--out", options.out, "DIR", "where runs and tables go, and where a sweep goes on");
  line.flag("--json", options.json, "sweep.json as one line, behind the last run");
  line.note(
      "examples:\n"
      "  lockstep sweep data/fortunes model.batch_size=4,8,16 --out sweeps/batch\n"
      "  lockstep sweep --config configs/shakespeare-char.toml ranks=1,2 memory.zero=0:3:1 --steps 30 --out sweeps/zero\n"
      "  lockstep sweep data/fortunes --layouts \"dp=4;dp=2,tp=2;zero=3\" --out sweeps/layouts\n"
      "docs/sweep.md says how it measures.");
  if (!line.parse(arguments)) return false;
  if (!data.empty()) std::ranges::copy(data_settings(data, options.words), std::back_inserter(options.words));
  return true;
}

std::vector<Problem> check(const Options& options) {
  std::vector<Problem> problems;
  if (comm::find_mpi_job())
    problems.push_back({"sweep under mpiexec: its ranks are threads of one process", "start it without mpiexec or srun"});
  if (options.steps < 2 || options.steps > 1000000) {
    problems.push_back(
        {fmt::format("--steps {}: must be from 2 to 1,000,000; the first one warms up", options.steps), "--steps 20"});
  }
  if (options.repeats < 1 || options.repeats > 1000)
    problems.push_back({fmt::format("--repeats {}: must be from 1 to 1000", options.repeats), "--repeats 3"});
  if (options.ranks && (*options.ranks < 1 || *options.ranks > most_ranks()))
    problems.push_back({fmt::format("--ranks {}: must be from 1 to {}", *options.ranks, most_ranks()), "--ranks 2"});
  if (options.out.empty()) {
    problems.push_back({"--out DIR is missing", "--out sweeps/first"});
  } else {
    for (Problem& problem : check_place(options.out, FolderOwner::sweep, "--out " + options.out, "--out sweeps/first"))
      problems.push_back(std::move(problem));
  }
  return problems;
}

SweepPlan plan_of(const Options& options) {
  std::vector<Problem> problems = check(options);
  SweepRequest request{.words = sweep_words(options.words, problems),
                       .files = options.files,
                       .ranks = options.ranks,
                       .steps = std::clamp<std::int64_t>(options.steps, 2, 1000000)};
  if (!options.layouts.empty()) add_layouts(request.words, options.layouts, problems);
  const bool ranks_differ = std::ranges::count(request.words.axes, "ranks", &SweepAxis::key) > 0;
  if (options.ranks && ranks_differ)
    problems.push_back({fmt::format("--ranks {} and ranks=... exclude each other", *options.ranks), "leave one of them out"});
  if (request.words.axes.empty() && problems.empty())
    problems.push_back({"nothing is swept", "name several values of a setting: model.batch_size=4,8"});
  SweepPlan plan;
  try {
    plan = sweep_points(request);
  } catch (const UserError& error) {
    problems.insert(problems.end(), error.problems().begin(), error.problems().end());
  }
  if (!problems.empty()) throw UserError(std::move(problems));
  return plan;
}

/// One seed for all points that draw one: that of the sweep in the folder, or a new one.
void share_drawn_seed(std::vector<SweepPoint>& points, const std::optional<SweepResults>& before) {
  const Json* known = before ? before->definition.find("drawn_seed") : nullptr;
  std::optional<std::int64_t> seed;
  if (known != nullptr) seed = known->integer();
  for (SweepPoint& point : points) {
    if (!point.draws_seed) continue;
    if (!seed) seed = point.config.train.seed;
    point.config.train.seed = point.recipe.train.seed = seed;
  }
}

void demand_same(const std::optional<SweepResults>& before, const Json& definition, const std::string& out) {
  const std::vector<std::string> found = before ? differences(before->definition, definition) : std::vector<std::string>();
  if (found.empty()) return;
  throw UserError(fmt::format("{} has another sweep: {}", out, fmt::join(found, "; ")),
                  "another --out, or what it was begun with: the same command, text and version");
}

/// Whether a run of the sweep made the folder: its name is the point's, or it was cut short before it said its name.
bool made_by_run(const io::Path& run_folder, const std::string& label) {
  if (const std::string config = first_bytes(run_folder / "config.json", 1 << 20); !config.empty())
    return config.find(fmt::format("\"name\": {}", Json(label).dump())) != std::string::npos;
  std::error_code failed;
  const std::vector<io::Path> entries = io::entries_of(run_folder, failed);
  return !failed && std::ranges::all_of(entries, [](const io::Path& file) { return is_name_of_run(file.filename().string()); });
}

/// Throws where a run that is still to come would replace what the sweep did not make.
void demand_own_places(const SweepResults& results, const Options& options) {
  std::vector<Problem> problems;
  const auto refuse = [&](const io::Path& path) {
    problems.push_back(
        {fmt::format("{} is there, and this sweep did not make it", path.string()), "move it away, or another --out"});
  };
  const io::Path out = options.out;
  for (const char* file : {"sweep.csv", winner_file}) {
    if (!io::exists(out / "sweep.json") && io::exists(out / file)) refuse(out / file);
  }
  for (std::size_t point = 0; point < results.points.size(); ++point) {
    for (std::int64_t repeat = 0; repeat < options.repeats; ++repeat) {
      if (results.has(point, repeat)) continue;
      const RunPlace place{point, repeat};
      const bool begun = std::ranges::find(results.begun, place) != results.begun.end();
      const io::Path folder = place.folder(out), log = log_of(folder);
      if (io::exists(folder) && !(begun && made_by_run(folder, results.points[point]))) refuse(folder);
      if (io::exists(log) && !begun) refuse(log);
    }
  }
  if (!problems.empty()) throw UserError(std::move(problems));
}

/// What is there already, or a new one. Points that draw a seed get the sweep's.
SweepResults begin(const Options& options, std::vector<SweepPoint>& points) {
  std::optional<SweepResults> before = load_sweep(options.out);
  share_drawn_seed(points, before);
  Json definition = definition_of(options.steps, points);
  demand_same(before, definition, options.out);
  Log log(options.told());
  definition.set("texts", texts_of(points, log));
  demand_same(before, definition, options.out);
  if (before) return *std::move(before);
  SweepResults results{.definition = definition, .points = {}, .all_reduce = {}, .runs = {}};
  for (const SweepPoint& point : points) results.points.push_back(point.label);
  return results;
}

AllReduceSpread all_reduce_spread(std::int64_t ranks) {
  constexpr std::int64_t bytes = 1 << 20;
  AllReduceSpread spread{.ranks = ranks, .bytes = bytes};
  run_on_ranks({.ranks = ranks}, [&](Session& session) {
    lab::CollectiveReport report;
    lab::bench_collectives({.ops = {comm::Collective::all_reduce}, .bytes = {bytes}, .trials = 20}, session.runtime(),
                           session.world(), report);
    if (!session.lead() || report.rows.empty()) return;
    const auto [least, greatest] = std::ranges::minmax(report.rows[0].slowest);
    spread.least = least;
    spread.median = report.rows[0].median_seconds();
    spread.greatest = greatest;
  });
  return spread;
}

/// Before a sweep over ranks: how much their exchange differs by itself.
void measure_exchange(SweepResults& results, const std::vector<SweepPoint>& points, const Options& options) {
  const auto other = [&](const SweepPoint& point) { return point.ranks != points[0].ranks; };
  if (!std::ranges::any_of(points, other)) return;
  for (const SweepPoint& point : points) {
    const auto known = std::ranges::find(results.all_reduce, point.ranks, &AllReduceSpread::ranks);
    if (point.ranks == 1 || known != results.all_reduce.end()) continue;
    const AllReduceSpread spread = results.all_reduce.emplace_back(all_reduce_spread(point.ranks));
    say(options.told(), to_text(spread));
    save(results, options.out);
  }
}

/// What changes nothing, once for all points in which it does not.
void print_idle(const std::vector<SweepPoint>& points, std::FILE* told) {
  std::vector<std::string> said;
  for (const SweepPoint& point : points) {
    for (const std::string& line : point.idle) {
      if (std::ranges::find(said, line) != said.end()) continue;
      say(told, fmt::format("{}  {}\n", said.empty() ? "Settings that change nothing in some of the runs:\n" : "", line));
      said.push_back(line);
    }
  }
}

/// Adds points that lack memory to those that are left out, and names all of these; the indices of those that will run. Throws
/// UserError where none is left.
std::vector<std::size_t> runnable(SweepPlan& plan, const Options& options) {
  std::vector<std::size_t> left;
  std::vector<Problem> all;
  for (const SweepPoint& point : plan.points) {
    std::vector<Problem> lack = lacking_memory(point);
    if (lack.empty()) left.push_back(static_cast<std::size_t>(&point - plan.points.data()));
    all.insert(all.end(), lack.begin(), lack.end());
    if (!lack.empty()) plan.left_out.push_back({point.label, std::move(lack)});
  }
  if (left.empty()) throw UserError(std::move(all));
  for (const LeftOut& one : plan.left_out)
    say(options.told(), visible(fmt::format("Left out: {}: {}", one.label, one.why.front().message)) + "\n");
  return left;
}

/// The recipe of the fastest, and the command that trains it.
void write_winner(const SweepPlan& plan, const SweepResults& results, const Options& options) {
  const SweepRow winner = ranking(results).front();
  if (winner.diverged) return;
  const SweepPoint& point = plan.points[winner.point];
  const std::string file = (io::Path(options.out) / winner_file).string();
  io::replace_file(file, to_toml(point.recipe));
  say(options.told(), fmt::format("The fastest as a recipe: {}\n",
                                  own_command({"train", "--config", file, "--ranks", std::to_string(point.ranks)})));
}

int sweep(const Arguments& arguments) {
  Options options;
  if (!parse(arguments, options)) return 0;
  SweepPlan plan = plan_of(options);
  const std::vector<SweepPoint>& points = plan.points;
  const RunLock lock(options.out, {},
                     {.file = "sweep.lock", .owner = "sweep", .remedy = "wait for it or stop it, or another --out"});
  SweepResults results = begin(options, plan.points);
  demand_own_places(results, options);
  const std::vector<std::size_t> left = runnable(plan, options);
  results.left_out = plan.left_out;
  const std::size_t all = left.size() * static_cast<std::size_t>(options.repeats);
  if (!results.runs.empty())
    say(options.told(), fmt::format("{} goes on: {} of {} runs are there\n", options.out, results.runs.size(), all));
  print_idle(points, options.told());
  measure_exchange(results, points, options);
  for (std::int64_t repeat = 0; repeat < options.repeats; ++repeat) {
    for (const std::size_t point : left) {
      if (results.has(point, repeat)) continue;
      const RunPlace place{point, repeat};
      if (std::ranges::find(results.begun, place) == results.begun.end()) results.begun.push_back(place);
      save(results, options.out);
      std::optional<SweepRun> run = measure(points[point], place, options.out);
      if (!run) {
        say(options.told(), fmt::format("Stopped after {} of {} runs; go on with the same command\n", results.runs.size(), all));
        return 0;
      }
      say(options.told(), fmt::format("repeat {} of {}: {}: {} tokens/s{}\n", repeat + 1, options.repeats, points[point].label,
                                      format_si(run->tokens_per_second), run->diverged ? ", diverged" : ""));
      results.runs.push_back(*std::move(run));
      save(results, options.out);
    }
  }
  say(options.told(),
      fmt::format("\n{}Wrote {}/sweep.json and sweep.csv\n", visible(to_text(results), LineBreaks::kept), options.out));
  write_winner(plan, results, options);
  if (options.json) say(stdout, to_json(results).dump() + "\n");
  return 0;
}

}  // namespace

Command sweep_command() { return {"sweep", "measure and rank values of a few settings", sweep, true}; }

}  // namespace lockstep::app
