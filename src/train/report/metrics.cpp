#include "train/report/metrics.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <span>
#include <string_view>
#include <vector>

#include "arch/flops.h"
#include "train/engine.h"

namespace lockstep::train {
namespace {

// `values` has one value of each rank.
Spread spread_of(std::span<const double> values) {
  Spread spread{.mean = 0, .least = values[0], .greatest = values[0], .deviation = 0};
  const auto n = static_cast<double>(values.size());
  for (const double x : values) {
    spread.mean += x / n;
    spread.least = std::min(spread.least, x);
    spread.greatest = std::max(spread.greatest, x);
  }
  for (const double x : values) spread.deviation += (x - spread.mean) * (x - spread.mean) / n;
  spread.deviation = std::sqrt(spread.deviation);
  return spread;
}

}  // namespace

RankTimes gather_times(const Metrics& m, comm::Communicator& world) {
  if (world.size() == 1) return {};
  const PipelineSeconds list = m.pipeline.value_or(PipelineSeconds{});
  std::array<double, 7> times_of_all{m.dt, m.dtf, m.dtb, m.data_wait, m.exposed_seconds, list.all, list.waiting};
  const std::span mine = std::span(times_of_all).first(m.pipeline ? 7 : 5);
  const auto ranks = static_cast<std::size_t>(world.size());
  std::vector<double> all(ranks * mine.size()), one(ranks);
  const std::vector<std::int64_t> counts(ranks, std::ssize(mine));
  world.host().all_gather(view(std::span(all), Shape{std::ssize(all)}), view(mine, Shape{std::ssize(mine)}), counts).wait();
  RankTimes times;
  constexpr std::array<std::string_view, 7> names{"dt", "dtf", "dtb", "data_wait", "exposed", "pipeline", "waiting"};
  for (std::size_t i = 0; i < mine.size(); ++i) {
    for (std::size_t r = 0; r < ranks; ++r) one[r] = all[r * mine.size() + i];
    times.emplace_back(names[i], spread_of(one));
  }
  return times;
}

void gather(SampleFigures& figures, double groups, const parallel::Groups& ranks) {
  for (comm::Communicator* some : {&ranks.replicas(), &ranks.pipeline()})
    some->host()
        .all_reduce(view(std::span<double>(figures.values), Shape{std::ssize(figures.values)}), comm::Reduction::sum)
        .wait();
  for (double& value : figures.values) value /= std::max(groups, 1.0);
}

double RunningMfu::update(double dt) {
  const double now = 100.0 * flops_ / dt / peak_;
  value_ = value_ ? 0.9 * *value_ + 0.1 * now : now;
  return *value_;
}

RunningMfu::RunningMfu(const EngineConfig& config, double peak) : RunningMfu(flops_per_iteration(config), peak) {
  hardware_share_ = hardware_share(config);
}

void RunningMfu::put(Metrics& metrics) {
  metrics.mfu = update(metrics.dt);
  metrics.hfu = metrics.mfu * hardware_share_;
  metrics.tflops_per_gpu = flops_ / metrics.dt / 1e12;
}

std::vector<std::pair<std::string, comm::Exchanged>> sent_by_purpose(const comm::Traffic& traffic) {
  std::vector<std::pair<std::string, comm::Exchanged>> all;
  for (std::size_t p = 0; p < comm::kPurposes; ++p) {
    const auto purpose = static_cast<comm::Purpose>(p);
    if (const comm::Exchanged some = traffic.of(purpose); some.sent > 0) all.emplace_back(name_of(purpose), some);
  }
  return all;
}

double flops_per_iteration(const EngineConfig& config) {
  return arch::training_flops_per_token(config.model, config.positions) *
         static_cast<double>(config.positions * config.samples * config.plan.microbatches) /
         (static_cast<double>(config.plan.ranks()) / config.plan.dp);
}

double hardware_share(const EngineConfig& config) {
  double again = arch::repeated_flops_per_token(config.model, config.positions, config.plan.recompute);
  if (row_of(config.objective.kind).make != nullptr) again += arch::head_again_flops_per_token(config.model, config.positions);
  return 1 + again / arch::training_flops_per_token(config.model, config.positions);
}

Metrics measure(const Engine& engine, const StepResult& result, double dt) {
  const EngineConfig& config = engine.config();
  const double ranks = engine.groups().all().size();
  const auto samples = static_cast<double>(engine.global_batch());
  Metrics m;
  static_cast<StepResult&>(m) = result;
  m.tokens = samples * static_cast<double>(config.positions);
  m.dt = dt;
  m.dtf = result.forward_seconds / config.plan.microbatches;
  m.dtb = (result.backward_seconds + result.update_seconds) / config.plan.microbatches;
  m.sps = samples / dt;
  m.sps_per_gpu = m.sps / ranks;
  m.tps = m.tokens / dt;
  m.tps_per_gpu = m.tps / ranks;
  return m;
}

}  // namespace lockstep::train
