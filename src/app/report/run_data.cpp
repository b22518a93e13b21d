#include "app/report/run_data.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <limits>

#include "app/settings/config_file.h"
#include "app/settings/keys.h"
#include "app/settings/run_layout.h"
#include "base/error.h"
#include "base/json.h"
#include "base/median.h"
#include "io/file.h"
#include "layout/pipeline/schedules.h"

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

void read_metrics(const fs::path& path, RunData& run) {
  train::for_each_logged(path, [&](const Json& line) {
    if (train::is_evaluation(line)) {
      const train::Losses losses = train::logged_losses(line);
      drop_from(run.evaluations, losses.step);
      drop_from(run.steps, losses.step + 1);
      run.evaluations.push_back(losses);
    } else {
      const train::LoggedStep step = train::logged_step(line, static_cast<double>(run.config.optimizer.gas));
      drop_from(run.evaluations, step.step);
      drop_from(run.steps, step.step);
      if (step.validation) add_older(run, step);
      run.steps.push_back(step);
    }
    run.name = line.at("run").string();
  });
}

/// Adds what is wrong with the folder to `problems`.
void read_run(const std::string& folder, std::vector<RunData>& runs, std::vector<Problem>& problems) {
  RunData run{.folder = folder, .label = folder, .name = {}, .config = {}, .resources = {}, .steps = {}, .evaluations = {}};
  const fs::path recipe = run.folder / "config.toml", metrics = run.folder / "metrics.jsonl";
  if (!fs::is_regular_file(recipe)) {
    problems.push_back({fmt::format("{}: no run's folder, for it has no config.toml", folder),
                        "a folder that lockstep train wrote, as runs/NAME"});
    return;
  }
  try {
    if (std::vector<Problem> wrong = read_config_file(recipe.string(), run.config); !wrong.empty())
      throw UserError(std::move(wrong));
    read_metrics(metrics, run);
    if (io::exists(run.folder / "resources.json")) run.resources = read_resources(run.folder);
  } catch (const UserError& error) {
    problems.insert(problems.end(), error.problems().begin(), error.problems().end());
    return;
  } catch (const SystemError& error) {
    problems.push_back({error.what(), "a file that can be read"});
    return;
  }
  if (run.steps.empty()) {
    problems.push_back({fmt::format("{}: the run has no metrics, so there is nothing to report", folder),
                        "train it for longer than train.log_interval steps, or with a smaller one"});
    return;
  }
  runs.push_back(std::move(run));
}

double median_over(const std::vector<train::LoggedStep>& steps, const auto& figure) {
  std::vector<double> values;
  for (std::size_t i = steps.size() > 1 ? 1 : 0; i < steps.size(); ++i) values.push_back(figure(steps[i]));
  return median_of(std::move(values));
}

double place_of(const train::LoggedStep& step, std::int64_t steps, bool by_tokens) {
  return static_cast<double>(steps) * (by_tokens ? step.tokens : 1);
}

}  // namespace

double RunData::tokens_per_second() const {
  return median_over(steps, [](const train::LoggedStep& step) { return step.tokens_per_second; });
}
double RunData::seconds() const {
  return median_over(steps, [](const train::LoggedStep& step) { return step.seconds; });
}

// Logged is a running mean, which begins with the first step's own.
double RunData::mfu() const { return steps.front().mfu * steps.front().seconds / seconds(); }

double RunData::thread_peak() const { return resources ? resources->peak_flops / static_cast<double>(resources->threads) : 0; }

std::array<double, train::kStepParts> RunData::account() const {
  std::array<double, train::kStepParts> all{};
  for (std::size_t part = 0; part < train::kStepParts; ++part)
    all[part] = median_over(steps, [&](const train::LoggedStep& step) { return step.parts[part]; });
  return all;
}

std::optional<double> RunData::waiting() const {
  if (!steps.back().pipeline) return std::nullopt;
  return median_over(steps, [](const train::LoggedStep& step) {
    return step.pipeline && step.pipeline->all > 0 ? step.pipeline->waiting / step.pipeline->all : 0;
  });
}

Series RunData::loss(bool by_tokens) const { return curve(&train::LoggedStep::loss, by_tokens); }

Series RunData::curve(double train::LoggedStep::* figure, bool by_tokens) const {
  Series series{.name = label, .x = {}, .y = {}};
  for (const train::LoggedStep& step : steps) {
    series.x.push_back(place_of(step, step.step, by_tokens));
    series.y.push_back(step.*figure);
  }
  return series;
}

Series RunData::validation(bool by_tokens) const {
  Series series{.name = label + " (validation)", .x = {}, .y = {}};
  for (const train::Losses& losses : evaluations) {
    series.x.push_back(place_of(steps.back(), losses.step, by_tokens));
    series.y.push_back(losses.validation);
  }
  return series;
}

std::string RunData::layout() const { return layout::describe(layout_of(config, ranks())); }

std::optional<layout::Timeline> RunData::schedule() const {
  const layout::ParallelPlan plan = layout_of(config, ranks());
  const layout::NamedSchedule* named = layout::find_schedule(plan.schedule);
  if (plan.pp == 1 || named == nullptr) return std::nullopt;
  const layout::PipelineShape shape{.ranks = plan.pp, .chunks = plan.chunks, .microbatches = plan.microbatches};
  if (!check(*named, shape).empty()) return std::nullopt;
  const layout::StageMap map = stage_map(*named, shape);
  return simulate(with_messages(named->passes(shape), map), map);
}

std::vector<RunData> read_runs(const std::vector<std::string>& folders) {
  std::vector<RunData> runs;
  std::vector<Problem> problems;
  std::vector<fs::path> seen;
  for (const std::string& folder : folders) {
    std::error_code ignored;
    const fs::path real = fs::weakly_canonical(folder, ignored);
    if (std::ranges::find(seen, real) != seen.end()) {
      problems.push_back({fmt::format("{}: the run is named twice", folder), "name each run once"});
      continue;
    }
    seen.push_back(real);
    read_run(folder, runs, problems);
  }
  if (!problems.empty()) throw UserError(std::move(problems));
  return runs;
}

bool compares_by_tokens(const std::vector<RunData>& runs) {
  return std::ranges::any_of(runs, [&](const RunData& run) { return run.steps.back().tokens != runs[0].steps.back().tokens; });
}

std::vector<SettingRow> setting_rows(const std::vector<RunData>& runs) {
  std::vector<RunConfig> columns;
  if (runs.size() == 1) columns.emplace_back();
  for (const RunData& run : runs) columns.push_back(run.config);
  std::vector<SettingRow> rows;
  for (const settings::Key& key : settings::keys()) {
    if (key.name == "log.dir" || key.name == "log.name") continue;
    SettingRow row{.key = key.name, .values = {}};
    for (const RunConfig& config : columns) row.values.push_back(settings::shown(key.get(config)));
    if (std::ranges::any_of(row.values, [&](const std::string& value) { return value != row.values[0]; }))
      rows.push_back(std::move(row));
  }
  return rows;
}

}  // namespace lockstep::app
