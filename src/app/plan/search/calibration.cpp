#include "app/plan/search/calibration.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "app/plan/machine_file.h"
#include "app/plan/predicted_run.h"
#include "app/plan/recipe_layout.h"
#include "app/plan/run_prediction.h"
#include "app/settings/keys.h"
#include "app/settings/run_layout.h"
#include "base/checked.h"
#include "base/error.h"
#include "base/number_text.h"
#include "base/text/trimmed.h"
#include "base/text/visible.h"
#include "base/units.h"
#include "lab/layouts.h"
#include "planner/search.h"

namespace lockstep::app {
namespace {

using planner::RateFactors;
using planner::Term;

/// The machine computes and sends no faster than its maker says.
void demand_possible(const planner::Machine& machine, const RateFactors& factors, const std::string& measured) {
  const double share = machine.product_share * factors.computing, links = machine.link_share * factors.links;
  if (share <= 1 && links <= 1) return;
  throw UserError(fmt::format("--calibrate {}: {} would reach {:.0f} % of what it can at most", measured,
                              share > 1 ? "its products" : "its links", 100 * std::max(share, links)),
                  "tokens a second of all devices, with the --global-batch and --seq that were measured");
}

void say(const std::string& measured, double predicted, double seconds, const RateFactors& factors, Answer& answer) {
  answer.say(
      fmt::format("calibrated by {}: a step takes {}, {} was predicted; rates of computing x {:.3f}, links x {:.3f}, "
                  "update x {:.3f}\n",
                  measured, format_seconds(seconds), format_seconds(predicted), factors.computing, factors.links,
                  factors.update * factors.computing));
  answer.fact("calibration", Json::Object{{"measured_seconds", seconds},
                                          {"predicted_seconds", predicted},
                                          {"computing", factors.computing},
                                          {"links", factors.links},
                                          {"update", factors.update * factors.computing}});
}

/// The largest term's factor; all rates alike where that term is too little to be all.
RateFactors fitted(const planner::Work& work, const planner::Candidate& candidate, double seconds, const std::string& measured,
                   Answer& answer) {
  for (const Term term : {planner::largest_term(work, candidate), Term::all}) {
    const auto factors = planner::fitted_factors(work, candidate, seconds, term);
    if (!factors) continue;
    demand_possible(work.machine, *factors, measured);
    say(measured, planner::simulated_time(work, candidate).total(), seconds, *factors, answer);
    return *factors;
  }
  throw UserError(fmt::format("--calibrate {}: no rates of {} make a step of {}", measured, visible(work.machine.name),
                              format_seconds(seconds)),
                  "tokens a second of all devices, with the --global-batch and --seq that were measured");
}

/// Parts of a run's step tell a factor each; then the step is made to agree.
RateFactors by_run(const std::string& folder, const std::string& named, Answer& answer) {
  const MeasuredRun run = read_run(folder);
  const RunWork planned = work_of(run, machine_for(run, named));
  const StepSeconds& measured = run.seconds;
  const planner::StepTime time = planner::simulated_time(planned.work, planned.candidate);
  const auto factor = [&](double predicted, double seconds) {
    constexpr double least = 0.01;
    return std::min(predicted, seconds) > least * measured.step ? predicted / seconds : 1;
  };
  RateFactors factors;
  factors.computing = factor(time.total() - time.bubble - time.replicas - time.optimizer, measured.forward + measured.backward);
  factors.links = factor(time.replicas, measured.exposed);
  factors.update = factor(time.optimizer, measured.update) / factors.computing;
  const auto agreed = planner::fitted_factors(planned.work, planned.candidate, measured.step, Term::computing, factors);
  if (!agreed)
    throw UserError(fmt::format("--calibrate {}: no rates make its step of {}", folder, format_seconds(measured.step)),
                    "a run with longer steps");
  say(visible(folder), time.total(), measured.step, *agreed, answer);
  return *agreed;
}

}  // namespace

planner::RateFactors calibrated_by(double tokens, const planner::Work& work, const planner::Candidate& candidate,
                                   std::int64_t global_batch, Answer& answer) {
  if (!(tokens > 0)) throw UserError(fmt::format("--calibrate {:g}: must be above 0", tokens), "tokens a second of all devices");
  const double seconds = static_cast<double>(global_batch * work.positions) / tokens;
  return fitted(work, candidate, seconds, fmt::format("{:g} tokens a second", tokens), answer);
}

planner::RateFactors calibrated(const std::string& text, const NamedModel& model, const planner::SearchQuestion& question,
                                const std::string& machine, Answer& answer) {
  const std::size_t colon = text.rfind(':');
  const auto tokens = colon == text.npos ? std::nullopt : number_from<double>(trimmed(text.substr(colon + 1)));
  if (!tokens || io::exists(text)) return by_run(text, machine, answer);
  std::vector<Problem> problems;
  NamedModel measured = model;
  for (const std::string& setting : lab::settings_from(trimmed(text.substr(0, colon)), problems)) {
    const settings::Key& key = *settings::find_key(setting.substr(0, setting.find('=')));
    if (auto problem = assign(measured.config, key, settings::value_from_text(key, setting.substr(setting.find('=') + 1))))
      problems.push_back(std::move(*problem));
  }
  if (!problems.empty()) throw UserError(std::move(problems));
  planner::Work work = question.work;
  const std::int64_t of_model = ranks_of_model(measured.config);
  const std::int64_t replicas = measured.config.parallel.dp.value_or(std::max<std::int64_t>(1, work.machine.ranks() / of_model));
  const std::int64_t microbatches = replicas * measured.config.optimizer.gas;
  if (question.global_batch % microbatches != 0) {
    throw UserError(fmt::format("--calibrate {}: its {} micro-batches do not divide --global-batch {}", text, microbatches,
                                question.global_batch),
                    "the --global-batch that was measured, and gas=N among its words");
  }
  measured.config.model.batch_size = question.global_batch / microbatches;
  work.machine.devices = std::min(work.machine.devices, replicas * of_model);
  work.machine.nodes = div_up(replicas * of_model, work.machine.devices);
  return calibrated_by(*tokens, work, candidate_of(measured.config, work), question.global_batch, answer);
}

}  // namespace lockstep::app
