#include "lab/step/bench_step.h"

#include <fmt/format.h>

#include <algorithm>

#include "arch/flops.h"
#include "base/error.h"
#include "base/median.h"
#include "base/timer.h"
#include "device/team.h"
#include "lab/process.h"
#include "layout/pipeline/schedules.h"
#include "layout/pipeline/simulation.h"

namespace lockstep::lab {
namespace {

constexpr int warm_up_steps = 2;
constexpr int least_steps = 3;
constexpr int most_account_steps = 5;

// Rank 0 decides for all.
std::int64_t agreed(comm::Communicator& world, std::int64_t decision) {
  world.host().broadcast(view(std::span(&decision, 1), Shape{1}), 0).wait();
  return decision;
}

double bubble_of(const layout::ParallelPlan& plan) {
  return layout::bubble(layout::simulate(layout::actions_of(plan), layout::stage_map(plan)));
}

// The headline: nothing but the training itself.
void time_steps(StepReport& report, const StepBenchOptions& options, Runtime& runtime, ops::Ops& ops, comm::Communicator& world) {
  StepTraining training(report.shape, runtime, ops, world, {report.layout, options.weights});
  report.activation_bytes = training.activation_bytes();
  report.memory_bytes = training.engine().ledger().total();
  train::StepResult result;
  report.first_step_seconds = training.timed_step(result);
  report.first_loss = result.loss;
  report.first_step_after_start = seconds_since_start();
  for (int i = 1; i < warm_up_steps; ++i) training.step();
  const int steps = std::max(options.steps, least_steps);
  const double until = now_seconds() + options.seconds;
  std::vector<double> exposed;
  for (int i = 0; i < steps && (i < least_steps || agreed(world, now_seconds() < until ? 1 : 0) != 0); ++i) {
    report.seconds.push_back(training.timed_step(result));
    exposed.push_back(result.exposed_seconds);
  }
  report.last_loss = result.loss;
  report.exposed_seconds = median_of(std::move(exposed));
  report.peak_mib = peak_resident_mib();
}

void add(train::ListSeconds& sums, const train::ListSeconds& list, double share) {
  sums.all += share * list.all;
  sums.chunks.resize(list.chunks.size());
  for (std::size_t c = 0; c < list.chunks.size(); ++c) {
    train::ChunkSeconds& sum = sums.chunks[c];
    const train::ChunkSeconds& own = list.chunks[c];
    sum.forward += share * own.forward;
    sum.backward += share * own.backward;
    sum.input_backward += share * own.input_backward;
    sum.weight_backward += share * own.weight_backward;
  }
}

// Makes the account with the same model once more, whose kernels are observed.
void fill_account(StepReport& report, const StepBenchOptions& options, Runtime& runtime, comm::Communicator& world) {
  OpAccount account;
  const std::unique_ptr<ops::Ops> ops = options.observed_ops(account);
  if (!runtime.device().is_host()) account.wait_for(ops->stream());
  StepTraining training(report.shape, runtime, *ops, world, {report.layout, options.weights});
  train::StepResult result = training.step();
  const auto affordable = static_cast<std::int64_t>(2 / report.median_seconds());
  report.account_steps = static_cast<int>(agreed(world, std::clamp<std::int64_t>(affordable, 1, most_account_steps)));
  account.reset();
  const double waited = world.waited_seconds();
  const double steps = report.account_steps;
  RankAccount own;
  for (int i = 0; i < report.account_steps; ++i) {
    report.account_seconds += training.timed_step(result);
    add(own.list, training.engine().list_seconds(), 1 / steps);
  }
  double known = 0;
  for (std::size_t i = 0; i < report.account.size(); ++i) {
    const auto part = static_cast<Part>(i);
    report.account[i] = (part == Part::ranks ? world.waited_seconds() - waited : account.seconds(part)) / steps;
    known += report.account[i];
  }
  report.account_seconds /= steps;
  report.account[static_cast<std::size_t>(Part::rest)] = std::max(0.0, report.account_seconds - known);
  own.ranks = report.account[static_cast<std::size_t>(Part::ranks)];
  own.rest = report.account[static_cast<std::size_t>(Part::rest)];
  own.kernels = known - own.ranks;
  report.each = gather_accounts(own, world);
  if (world.rank() == 0) report.stages = stage_accounts(report.each, report.layout.plan);
  report.ops = account.times();
  report.products = account.products();
}

}  // namespace

double StepReport::median_seconds() const { return median_of(seconds); }

double StepReport::tokens_per_second() const { return static_cast<double>(shape.tokens()) / median_seconds(); }

std::optional<double> StepReport::floor_ratio() const {
  if (!floor) return {};
  return median_seconds() / floor->seconds();
}

StepReport bench_step(const StepShape& shape, const StepBenchOptions& options, Runtime& runtime, ops::Ops& ops,
                      comm::Communicator& world) {
  StepReport report;
  report.shape = shape;
  report.version = options.version;
  report.dtype = options.weights.type;
  report.layout = options.layout.value_or(data_parallel(world.size()));
  report.ranks = world.size();
  if (std::vector<Problem> problems = check(report.shape, report.layout, report.ranks); !problems.empty())
    throw UserError(std::move(problems));
  report.bubble = bubble_of(report.layout.plan);
  if (!runtime.device().is_host()) report.gpu = runtime.description();
  report.threads = runtime.team().size() * world.size();
  report.flops_per_token = arch::training_flops_per_token(model_of(shape), shape.positions);
  time_steps(report, options, runtime, ops, world);
  if (options.observed_ops) fill_account(report, options, runtime, world);
  return report;
}

}  // namespace lockstep::lab
