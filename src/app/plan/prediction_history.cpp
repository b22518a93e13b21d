#include "app/plan/prediction_history.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <map>
#include <sstream>
#include <stdexcept>

#include "base/json.h"
#include "base/median.h"
#include "io/appended_file.h"

namespace lockstep::app {
namespace {

Json json_of(const std::vector<ComparedFigure>& figures) {
  Json json;
  for (const ComparedFigure& figure : figures)
    json.set(figure.name, Json(Json::Object{{"predicted", figure.predicted}, {"measured", figure.measured}}));
  return json;
}

/// Errors of steps on a machine, without their signs, by run; the last of each.
std::map<std::string, double> step_errors(const io::Path& path, const std::string& machine) {
  std::map<std::string, double> errors;
  std::istringstream lines(io::read_document(path));
  for (std::string line; std::getline(lines, line);) {
    const Json check = Json::parse(line, path.string());
    if (check.at("machine").string() != machine) continue;
    const Json& step = check.at("seconds").at("step");
    const ComparedFigure figure{"step", step.at("predicted").number(), step.at("measured").number()};
    errors[check.at("run").string()] = std::abs(figure.error().value_or(0));
  }
  return errors;
}

}  // namespace

std::string keep_errors(const MeasuredRun& run, const planner::Machine& machine, const RunComparison& comparison) {
  const io::Path folder = std::filesystem::canonical(run.folder), path = folder.parent_path() / "predictions.jsonl";
  const Json line(Json::Object{{"run", folder.filename().string()},
                               {"time", fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::chrono::system_clock::now()))},
                               {"machine", machine.name},
                               {"machine_peak_flops", machine.peak_flops},
                               {"run_peak_flops", run.resources.peak_flops},
                               {"layout", comparison.layout},
                               {"bytes", json_of(comparison.memory)},
                               {"seconds", json_of(comparison.seconds)}});
  try {
    io::AppendedFile(path).append(line.dump() + "\n");
  } catch (const std::runtime_error& error) {  // what was found is told all the same
    return fmt::format("not kept in {}: {}", path.string(), error.what());
  }
  std::vector<double> errors;
  for (const auto& [name, error] : step_errors(path, machine.name)) errors.push_back(error);
  return fmt::format("{}: steps of {} run{} on {} are off by {:.1f} % in the median, {:.1f} % at the most", path.string(),
                     errors.size(), errors.size() == 1 ? "" : "s", machine.name, 100 * median_of(errors),
                     100 * std::ranges::max(errors));
}

}  // namespace lockstep::app
