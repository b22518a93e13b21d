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

// Random tokens; each one's target is the next.
class FixedBatch {
 public:
  explicit FixedBatch(const StepShape& shape) {
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
    batch_.tokens = view(std::span(tokens_), Shape{shape.tokens()});
    batch_.targets = view(std::span(targets_), Shape{shape.tokens()});
    batch_.samples = shape.samples;
    batch_.positions = shape.positions;
    batch_.target_count = shape.tokens();
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
      : batch_(shape), engine_(engine_config(shape), runtime, ops, world) {
    engine_.commit();
    engine_.initialise();
  }
  /// One step; returns its loss.
  double step() { return engine_.step({&batch_.batch(), 1}, batch_.batch().target_count, done_++, learning_rate).loss; }

 private:
  static train::EngineConfig engine_config(const StepShape& shape) {
    train::EngineConfig config;
    config.model = model_of(shape);
    config.adamw = {.beta1 = 0.9F, .beta2 = 0.95F, .eps = 1e-8F, .weight_decay = 0.1F};
    config.grad_clip = 1.0F;
    config.samples = shape.samples;
    config.positions = shape.positions;
    return config;
  }
  FixedBatch batch_;
  train::Engine engine_;
  std::int64_t done_ = 0;
};

double timed_step(Training& training, double& loss) {
  const double start = now_seconds();
  loss = training.step();
  return now_seconds() - start;
}

// The headline: nothing but the training itself.
void time_steps(StepReport& report, const StepBenchOptions& options, Runtime& runtime, ops::Ops& ops, comm::Communicator& world) {
  Training training(report.shape, runtime, ops, world);
  report.first_step_seconds = timed_step(training, report.first_loss);
  report.first_step_after_start = seconds_since_start();
  for (int i = 1; i < warm_up_steps; ++i) training.step();
  const int steps = std::max(options.steps, least_steps);
  const double until = now_seconds() + options.seconds;
  for (int i = 0; i < steps && (i < least_steps || now_seconds() < until); ++i) {
    report.seconds.push_back(timed_step(training, report.last_loss));
  }
  report.peak_mib = peak_resident_mib();
}

// The same model again, with kernels that keep time.
void fill_account(StepReport& report, Runtime& runtime, ops::Ops& ops, comm::Communicator& world) {
  TimedOps timed(ops);
  Training training(report.shape, runtime, timed, world);
  double loss = training.step();
  report.account_steps = std::clamp(static_cast<int>(2 / report.median_seconds()), 1, most_account_steps);
  timed.reset();
  for (int i = 0; i < report.account_steps; ++i) report.account_seconds += timed_step(training, loss);
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

void check(const StepBenchOptions& options) {
  std::vector<Problem> problems;
  if (options.steps < 1) problems.push_back({fmt::format("--steps {}: must be at least 1", options.steps), "--steps 20"});
  if (!(options.seconds > 0)) problems.push_back({fmt::format("--seconds {}: must be above 0", options.seconds), "--seconds 40"});
  if (!problems.empty()) throw UserError(std::move(problems));
}

}  // namespace

double StepReport::median_seconds() const {
  std::vector<double> sorted = seconds;
  std::ranges::sort(sorted);
  const std::size_t half = sorted.size() / 2;
  return sorted.size() % 2 == 1 ? sorted[half] : (sorted[half - 1] + sorted[half]) / 2;
}

double StepReport::tokens_per_second() const { return static_cast<double>(shape.tokens()) / median_seconds(); }

std::optional<double> StepReport::floor_ratio() const {
  if (!floor) return {};
  return median_seconds() / floor->seconds();
}

StepReport bench_step(const StepShape& shape, const StepBenchOptions& options, Runtime& runtime, ops::Ops& ops,
                      comm::Communicator& world) {
  check(options);
  StepReport report;
  report.shape = shape;
  report.version = options.version;
  report.threads = cpu::team_of(runtime).size();
  report.flops_per_token = arch::training_flops_per_token(model_of(shape), shape.positions);
  time_steps(report, options, runtime, ops, world);
  fill_account(report, runtime, ops, world);
  return report;
}

}  // namespace lockstep::lab
