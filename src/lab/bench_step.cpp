#include "lab/bench_step.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "arch/flops.h"
#include "base/error.h"
#include "base/rng.h"
#include "base/timer.h"
#include "data/batch.h"
#include "device/cpu/team.h"
#include "lab/process.h"
#include "train/engine.h"

namespace lockstep::lab {
namespace {

constexpr int warm_up_steps = 2;
constexpr int least_steps = 3;
constexpr int most_account_steps = 5;
constexpr double learning_rate = 3e-4;

// Random tokens; each one's target is the next. A rank's part of them.
class FixedBatch {
 public:
  FixedBatch(const StepShape& shape, int rank, int ranks) {
    const CounterRng rng(0, "bench.batch");
    const auto vocabulary = static_cast<std::uint64_t>(shape.vocabulary);
    std::uint64_t index = 0;
    for (std::int64_t sample = 0; sample < shape.samples; ++sample) {
      auto token = static_cast<std::int32_t>(rng.below(vocabulary, index++));
      for (std::int64_t position = 0; position < shape.positions; ++position) {
        tokens_.push_back(token);
        token = static_cast<std::int32_t>(rng.below(vocabulary, index++));
        targets_.push_back(token);
      }
    }
    const std::int64_t mine = shape.tokens() / ranks;
    batch_.tokens = view(std::span(tokens_), Shape{shape.tokens()}).flat(rank * mine, mine);
    batch_.targets = view(std::span(targets_), Shape{shape.tokens()}).flat(rank * mine, mine);
    batch_.samples = shape.samples / ranks;
    batch_.positions = shape.positions;
    batch_.target_count = mine;
    batch_.first_sample = static_cast<std::uint64_t>(rank * batch_.samples);
  }
  FixedBatch(const FixedBatch&) = delete;
  FixedBatch& operator=(const FixedBatch&) = delete;
  const data::Batch& batch() const { return batch_; }

 private:
  std::vector<std::int32_t> tokens_, targets_;
  data::Batch batch_;
};

// A model that is trained on one batch, again and again.
class Training {
 public:
  Training(const StepShape& shape, Runtime& runtime, ops::Ops& ops, comm::Communicator& world)
      : batch_(shape, world.rank(), world.size()), engine_(engine_config(shape, world.size()), runtime, ops, world) {
    engine_.commit();
    engine_.initialise();
  }
  train::StepResult step() { return engine_.step({&batch_.batch(), 1}, batch_.batch().target_count, done_++, learning_rate); }

 private:
  static train::EngineConfig engine_config(const StepShape& shape, int ranks) {
    train::EngineConfig config;
    config.model = model_of(shape);
    config.adamw = {.beta1 = 0.9F, .beta2 = 0.95F, .eps = 1e-8F, .weight_decay = 0.1F};
    config.grad_clip = 1.0F;
    config.samples = shape.samples / ranks;
    config.positions = shape.positions;
    return config;
  }
  FixedBatch batch_;
  train::Engine engine_;
  std::int64_t done_ = 0;
};

double timed_step(Training& training, train::StepResult& result) {
  const double start = now_seconds();
  result = training.step();
  return now_seconds() - start;
}

// Rank 0 decides for all.
std::int64_t agreed(comm::Communicator& world, std::int64_t decision) {
  world.broadcast(view(std::span(&decision, 1), Shape{1}), 0).wait();
  return decision;
}

double median_of(std::vector<double> values) {
  std::ranges::sort(values);
  const std::size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

// The headline: nothing but the training itself.
void time_steps(StepReport& report, const StepBenchOptions& options, Runtime& runtime, ops::Ops& ops, comm::Communicator& world) {
  Training training(report.shape, runtime, ops, world);
  train::StepResult result;
  report.first_step_seconds = timed_step(training, result);
  report.first_loss = result.loss;
  report.first_step_after_start = seconds_since_start();
  for (int i = 1; i < warm_up_steps; ++i) training.step();
  const int steps = std::max(options.steps, least_steps);
  const double until = now_seconds() + options.seconds;
  std::vector<double> exposed;
  for (int i = 0; i < steps && (i < least_steps || agreed(world, now_seconds() < until ? 1 : 0) != 0); ++i) {
    report.seconds.push_back(timed_step(training, result));
    exposed.push_back(result.exposed_seconds);
  }
  report.last_loss = result.loss;
  report.exposed_seconds = median_of(std::move(exposed));
  report.peak_mib = peak_resident_mib();
}

// The same model again, with kernels that keep time.
void fill_account(StepReport& report, Runtime& runtime, ops::Ops& ops, comm::Communicator& world) {
  TimedOps timed(ops);
  Training training(report.shape, runtime, timed, world);
  train::StepResult result = training.step();
  const auto affordable = static_cast<std::int64_t>(2 / report.median_seconds());
  report.account_steps = static_cast<int>(agreed(world, std::clamp<std::int64_t>(affordable, 1, most_account_steps)));
  timed.reset();
  for (int i = 0; i < report.account_steps; ++i) report.account_seconds += timed_step(training, result);
  const double steps = report.account_steps;
  double known = 0;
  for (std::size_t part = 0; part < report.account.size(); ++part) {
    report.account[part] = timed.seconds(static_cast<Part>(part)) / steps;
    known += report.account[part];
  }
  report.account_seconds /= steps;
  report.account[static_cast<std::size_t>(Part::rest)] = report.account_seconds - known;
  report.ops = timed.times();
  report.products = timed.products();
}

void check(const StepShape& shape, const StepBenchOptions& options, int ranks) {
  std::vector<Problem> problems;
  if (options.steps < 1) problems.push_back({fmt::format("--steps {}: must be at least 1", options.steps), "--steps 20"});
  if (!(options.seconds > 0)) problems.push_back({fmt::format("--seconds {}: must be above 0", options.seconds), "--seconds 40"});
  if (shape.samples % ranks != 0) {
    problems.push_back({fmt::format("--ranks {}: the {} samples of {} do not divide by it", ranks, shape.samples, shape.name),
                        "choose a number of ranks that divides them, or a shape with more samples"});
  }
  if (!problems.empty()) throw UserError(std::move(problems));
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
  check(shape, options, world.size());
  StepReport report;
  report.shape = shape;
  report.version = options.version;
  report.ranks = world.size();
  report.threads = cpu::team_of(runtime).size() * world.size();
  report.flops_per_token = arch::training_flops_per_token(model_of(shape), shape.positions);
  time_steps(report, options, runtime, ops, world);
  fill_account(report, runtime, ops, world);
  return report;
}

}  // namespace lockstep::lab
