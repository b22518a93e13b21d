#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <limits>
#include <set>
#include <utility>

#include "app/folder/runs_in.h"
#include "app/report/run_data.h"
#include "app/settings/config_file.h"
#include "base/error.h"
#include "base/json.h"
#include "train/report/metrics_file.h"

namespace lockstep::app {
namespace {

namespace fs = std::filesystem;

/// A resume did them again.
void drop_from(auto& rows, std::int64_t step) {
  while (!rows.empty() && rows.back().step >= step) rows.pop_back();
}

/// Older versions had the loss of the last evaluation in the lines of the steps behind it.
void add_older(RunData& run, const train::LoggedStep& step) {
  const std::int64_t every = run.config.train.eval_interval, at = (step.step - 1) / every * every;
  if (!run.evaluations.empty() && run.evaluations.back().step >= at) return;
  run.evaluations.push_back({.step = at, .train = std::numeric_limits<double>::quiet_NaN(), .validation = *step.validation});
}

void read_metrics(RunData& run) {
  const auto take = [&](const Json& line) {
    if (train::is_evaluation(line)) {
      const train::Losses losses = train::logged_losses(line);
      drop_from(run.evaluations, losses.step);
      drop_from(run.steps, losses.step + 1);
      run.evaluations.push_back(losses);
    } else {
      train::LoggedStep step = train::logged_step(line, static_cast<double>(run.config.optimizer.gas));
      drop_from(run.evaluations, step.step);
      drop_from(run.steps, step.step);
      if (step.validation) add_older(run, step);
      // A resume may have changed the batch: the steps since the line before have this one's.
      const auto [before, tokens] =
          run.steps.empty() ? std::pair(std::int64_t{0}, 0.0) : std::pair(run.steps.back().step, run.steps.back().all_tokens);
      step.all_tokens = tokens + static_cast<double>(step.step - before) * step.tokens;
      run.steps.push_back(step);
    }
    run.name = line.at("run").string();
  };
  run.read.metrics = train::for_each_logged(run.folder / "metrics.jsonl", take, run.read.metrics);
}

void read_samples(RunData& run) {
  const auto take = [&](const Json& line) {
    const std::int64_t step = line.at("step").integer();
    drop_from(run.samples, step);
    run.samples.push_back({step, line.at("text").string()});
  };
  run.read.samples = train::for_each_logged(run.folder / train::samples_file, take, run.read.samples);
}

/// What tells a file from one that took its place, or from what it was; `grows`: it may have become longer.
std::string mark_of(const io::Path& file, std::uint64_t read, bool grows) {
  struct stat facts{};
  if (stat(file.c_str(), &facts) != 0) return "none ";
  if (grows) return fmt::format("{} {} ", facts.st_ino, static_cast<std::uint64_t>(facts.st_size) < read);
  return fmt::format("{} {} {}.{} ", facts.st_ino, facts.st_size, facts.st_mtim.tv_sec, facts.st_mtim.tv_nsec);
}

std::string mark_of(const RunData& run) {
  std::string mark = mark_of(run.folder / "metrics.jsonl", run.read.metrics.bytes, true) +
                     mark_of(run.folder / train::samples_file, run.read.samples.bytes, true);
  for (const char* file : {"config.toml", "resources.json", "environment.json"}) mark += mark_of(run.folder / file, 0, false);
  return mark;
}

void read_files(RunData& run) {
  if (const std::string mark = mark_of(run); mark != run.read.mark) {
    RunData anew;
    anew.folder = run.folder;
    anew.label = run.label;
    anew.read.mark = mark;
    run = std::move(anew);
    if (std::vector<Problem> wrong = read_config_file((run.folder / "config.toml").string(), run.config); !wrong.empty())
      throw UserError(std::move(wrong));
    if (io::exists(run.folder / "resources.json")) run.resources = read_resources(run.folder);
    run.origin = read_origin(run.folder);
  }
  read_metrics(run);
  read_samples(run);
}

/// Adds what is wrong with the folder to `problems`. `named`: without metrics it is a problem, else it is left out.
void read_run(RunData run, bool named, std::vector<RunData>& runs, std::vector<Problem>& problems) {
  try {
    read_files(run);
  } catch (const UserError& error) {
    problems.insert(problems.end(), error.problems().begin(), error.problems().end());
    return;
  } catch (const SystemError& error) {
    problems.push_back({error.what(), "a file that can be read"});
    return;
  }
  if (!run.steps.empty()) {
    runs.push_back(std::move(run));
  } else if (named) {
    problems.push_back({fmt::format("{}: the run has no metrics, so there is nothing to report", run.folder.string()),
                        "train it for longer than train.log_interval steps, or with a smaller one"});
  }
}

/// The last `names` names of the path.
std::string end_of(const fs::path& path, int names) {
  fs::path end;
  for (auto name = path.end(); names > 0 && name != path.begin(); --names) end = end.empty() ? *--name : *--name / end;
  return end.string();
}

/// Labels are paths without links before, and the shortest ends of them that are all different behind.
void shorten_labels(std::vector<RunData>& runs) {
  for (int names = 1;; ++names) {
    std::set<std::string> ends;
    for (const RunData& run : runs) ends.insert(end_of(run.label, names));
    if (ends.size() < runs.size()) continue;
    for (RunData& run : runs) run.label = end_of(run.label, names);
    return;
  }
}

/// The run in `folder`: as it was read before, or with nothing read yet.
RunData known_run(const io::Path& folder, const io::Path& real, std::vector<RunData>& before) {
  const auto known = std::ranges::find(before, folder, &RunData::folder);
  RunData run;
  if (known != before.end()) run = std::move(*known);
  run.folder = folder;
  run.label = real.string();
  return run;
}

}  // namespace

std::vector<Problem> read_again(const std::vector<std::string>& folders, std::vector<RunData>& runs) {
  std::vector<RunData> before = std::exchange(runs, {});
  std::vector<Problem> problems;
  std::set<fs::path> named, seen;
  for (const std::string& folder : folders) {
    const std::vector<io::Path> found = runs_in(folder);
    const bool itself = found.size() == 1 && found[0] == fs::path(folder);
    if (found.empty()) {
      problems.push_back({fmt::format("{}: no run's folder, for it has no config.toml, and there is no run in it", folder),
                          "a folder that lockstep train wrote, as runs/NAME, or a folder of such folders"});
    }
    for (const io::Path& run : found) {
      std::error_code unknown;
      const fs::path real = fs::weakly_canonical(run, unknown);
      if (itself && !named.insert(real).second) {
        problems.push_back({fmt::format("{}: the run is named twice", folder), "name each run once"});
      } else if (seen.insert(real).second) {
        read_run(known_run(run, real, before), itself, runs, problems);
      }
    }
  }
  shorten_labels(runs);
  return problems;
}

std::vector<RunData> read_runs(const std::vector<std::string>& folders) {
  std::vector<RunData> runs;
  std::vector<Problem> problems = read_again(folders, runs);
  if (runs.empty() && problems.empty())
    problems.push_back({fmt::format("no run in {} has metrics yet", fmt::join(folders, ", ")), "wait for their first steps"});
  if (!problems.empty()) throw UserError(std::move(problems));
  return runs;
}

}  // namespace lockstep::app
