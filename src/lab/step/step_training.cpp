#include "lab/step/step_training.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/rng.h"
#include "base/timer.h"

namespace lockstep::lab {
namespace {

constexpr double learning_rate = 3e-4;

layout::ParallelPlan plan_of(int ranks, const StepSettings& settings) {
  layout::ParallelPlan plan{.dp = ranks, .recompute = settings.recompute, .ranks_per_host = ranks};
  layout::set_zero_level(plan, settings.zero);
  return plan;
}

train::EngineConfig engine_config(const StepShape& shape, int ranks, const StepSettings& settings) {
  train::EngineConfig config;
  config.model = model_of(shape);
  config.grad_clip = 1.0F;
  config.samples = shape.samples / ranks;
  config.positions = shape.positions;
  config.plan = plan_of(ranks, settings);
  config.weights = settings.weights;
  config.gradients = settings.gradients;
  return config;
}

}  // namespace

FixedBatch::FixedBatch(const StepShape& shape, int rank, int ranks) {
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

StepTraining::StepTraining(const StepShape& shape, Runtime& runtime, ops::Ops& ops, comm::Communicator& world,
                           const StepSettings& settings)
    : batch_(shape, world.rank(), world.size()),
      groups_(world, layout::Mesh(plan_of(world.size(), settings))),
      engine_(engine_config(shape, world.size(), settings), runtime, ops, groups_) {
  engine_.commit();
  engine_.initialise();
}

train::StepResult StepTraining::step() {
  return engine_.step({&batch_.batch(), 1}, batch_.batch().target_count, done_++, learning_rate);
}

double StepTraining::timed_step(train::StepResult& result) {
  const double start = now_seconds();
  result = step();
  return now_seconds() - start;
}

void check_samples(const StepShape& shape, int ranks, std::vector<Problem>& problems) {
  if (shape.samples % ranks == 0) return;
  problems.push_back({fmt::format("--ranks {}: the {} samples of {} do not divide by it", ranks, shape.samples, shape.name),
                      "choose a number of ranks that divides them, or a shape with more samples"});
}

double median_of(std::vector<double> values) {
  std::ranges::sort(values);
  const std::size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

}  // namespace lockstep::lab
