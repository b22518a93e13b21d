#include "app/plan/measured_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "app/plan/named_model.h"
#include "base/error.h"
#include "base/median.h"
#include "io/file.h"
#include "train/report/logged_step.h"

namespace lockstep::app {
namespace {

StepSeconds seconds_of(const train::LoggedStep& step) {
  return {.forward = step.in(train::StepPart::forward),
          .backward = step.in(train::StepPart::backward),
          .exposed = step.in(train::StepPart::exposed),
          .update = step.in(train::StepPart::update),
          .step = std::max(0.0, step.seconds - step.in(train::StepPart::data)),
          .bubble = step.pipeline ? step.pipeline->waiting : 0,
          .waited = step.waited};
}

std::vector<StepSeconds> steps_of(const io::Path& path, double microbatches) {
  std::vector<StepSeconds> steps;
  train::for_each_logged(path, [&](const Json& line) {
    if (!train::is_evaluation(line)) steps.push_back(seconds_of(train::logged_step(line, microbatches)));
  });
  if (steps.size() > 1) steps.erase(steps.begin());
  return steps;
}

}  // namespace

MeasuredRun read_run(const io::Path& folder) {
  const io::Path recipe = folder / "config.toml", metrics = folder / "metrics.jsonl";
  if (!io::exists(recipe)) {
    throw UserError(fmt::format("{}: no run's folder, for it has no config.toml", folder.string()),
                    "a folder that lockstep train wrote, as runs/NAME");
  }
  MeasuredRun run{.folder = folder, .config = named_model(recipe.string(), 0).config, .resources = {}, .seconds = {}};
  const std::vector<StepSeconds> steps = steps_of(metrics, static_cast<double>(run.config.optimizer.gas));
  if (steps.empty()) {
    throw UserError(fmt::format("{}: the run has no metrics, so nothing was measured", folder.string()),
                    "train it for longer than train.log_interval steps, or with a smaller one");
  }
  run.resources = read_resources(folder);
  if (run.resources.servers > 0) {
    throw UserError(fmt::format("{}: parameter servers have no time model", folder.string()),
                    "a run whose ranks update together");
  }
  run.lines = std::ssize(steps);
  const auto median = [&](const auto& figure) {
    std::vector<double> values;
    for (const StepSeconds& step : steps) values.push_back(figure(step));
    return median_of(std::move(values));
  };
  for (double StepSeconds::* part : {&StepSeconds::forward, &StepSeconds::backward, &StepSeconds::exposed, &StepSeconds::update,
                                     &StepSeconds::step, &StepSeconds::bubble})
    run.seconds.*part = median([&](const StepSeconds& step) { return step.*part; });
  for (std::size_t kind = 0; kind < comm::kCollectives; ++kind)
    run.seconds.waited[kind] = median([&](const StepSeconds& step) { return step.waited[kind]; });
  return run;
}

}  // namespace lockstep::app
