#include "lab/step/step_training.h"

#include <fmt/format.h>

#include <algorithm>

#include "arch/flops.h"
#include "base/rng.h"
#include "base/timer.h"
#include "layout/pipeline/schedules.h"
#include "layout/pipeline/split.h"

namespace lockstep::lab {
namespace {

constexpr double learning_rate = 3e-4;

train::EngineConfig engine_config(const StepShape& shape, int ranks, const StepSettings& settings) {
  train::EngineConfig config;
  config.model = model_of(shape);
  config.grad_clip = 1.0F;
  config.plan = plan_of(shape, ranks, settings);
  config.samples = shape.samples / config.plan.dp / config.plan.microbatches;
  config.positions = shape.positions;
  config.weights = settings.weights;
  config.gradients = settings.gradients;
  return config;
}

}  // namespace

layout::ParallelPlan plan_of(const StepShape& shape, int ranks, const StepSettings& settings) {
  const auto& [stages, name, microbatches] = settings.pipeline;
  layout::ParallelPlan plan{.dp = ranks / stages,
                            .pp = stages,
                            .chunks = usual_chunks(*layout::find_schedule(name), stages),
                            .schedule = name,
                            .microbatches = microbatches,
                            .recompute = settings.recompute,
                            .ranks_per_host = ranks};
  layout::set_zero_level(plan, settings.zero);
  const arch::ModelConfig model = model_of(shape);
  const double block = arch::block_flops_per_token(model, shape.positions);
  const double head = arch::training_flops_per_token(model, shape.positions) - block * static_cast<double>(model.layers);
  if (stages > 1) plan.split = layout::balanced_split(layout::stage_map(plan), model.layers, {block, head});
  return plan;
}

FixedBatches::FixedBatches(const StepShape& shape, int part, int parts, int microbatches) {
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
  const std::int64_t each = shape.tokens() / parts / microbatches;
  targets_of_step_ = each * microbatches;
  for (int m = 0; m < microbatches; ++m) {
    const std::int64_t number = std::int64_t{part} * microbatches + m;
    data::Batch& batch = batches_.emplace_back();
    batch.tokens = view(std::span(tokens_), Shape{shape.tokens()}).flat(number * each, each);
    batch.targets = view(std::span(targets_), Shape{shape.tokens()}).flat(number * each, each);
    batch.samples = shape.samples / parts / microbatches;
    batch.positions = shape.positions;
    batch.target_count = each;
    batch.first_sample = static_cast<std::uint64_t>(number * batch.samples);
  }
}

StepTraining::StepTraining(const StepShape& shape, Runtime& runtime, ops::Ops& ops, comm::Communicator& world,
                           const StepSettings& settings)
    : groups_(world, layout::Mesh(plan_of(shape, world.size(), settings))),
      batches_(shape, groups_.at().dp, groups_.plan().dp, groups_.plan().microbatches),
      engine_(engine_config(shape, world.size(), settings), runtime, ops, groups_) {
  engine_.commit();
  engine_.initialise();
}

train::StepResult StepTraining::step() { return engine_.step(batches_.all(), batches_.targets(), done_++, learning_rate); }

double StepTraining::timed_step(train::StepResult& result) {
  const double start = now_seconds();
  result = step();
  return now_seconds() - start;
}

void check_samples(const StepShape& shape, int ranks, std::vector<Problem>& problems, const StepPipeline& pipeline) {
  const auto& [stages, name, microbatches] = pipeline;
  const layout::NamedSchedule* schedule = layout::find_schedule(name);
  if (schedule == nullptr)
    problems.push_back({fmt::format("--schedule {}: there is no such schedule", name), "lockstep plan --help lists them"});
  if (microbatches < 1) problems.push_back({fmt::format("--gas {}: must be at least 1", microbatches), "--gas 1"});
  if (stages < 1 || ranks % stages != 0) {
    problems.push_back({fmt::format("--pp {}: {} rank{} not divide by it", stages, ranks, ranks == 1 ? " does" : "s do"),
                        "choose a number of stages that divides --ranks"});
  }
  if (!problems.empty()) return;
  const int chunks = usual_chunks(*schedule, stages);
  if (std::int64_t{stages} * chunks > shape.layers) {
    problems.push_back({fmt::format("--pp {} --schedule {}: {} stages, and {} has {} layers", stages, name, stages * chunks,
                                    shape.name, shape.layers),
                        "take fewer stages, or a shape with more layers"});
  }
  if (schedule->least_microbatches * stages > microbatches && stages > 1) {
    problems.push_back({fmt::format("--gas {}: schedule {} needs at least {} micro-batches for each of {} ranks", microbatches,
                                    name, schedule->least_microbatches, stages),
                        fmt::format("--gas {}", schedule->least_microbatches * stages)});
  }
  const int parts = ranks / stages * microbatches;
  if (shape.samples % parts == 0) return;
  const std::string what =
      parts == ranks ? fmt::format("--ranks {}", ranks) : fmt::format("--ranks {} --pp {} --gas {}", ranks, stages, microbatches);
  problems.push_back({fmt::format("{}: the {} samples of {} do not divide by {}", what, shape.samples, shape.name,
                                  parts == ranks ? "it" : std::to_string(parts)),
                      "choose a number of ranks that divides them, or a shape with more samples"});
}

double median_of(std::vector<double> values) {
  std::ranges::sort(values);
  const std::size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

}  // namespace lockstep::lab
