#include "lab/step/step_training.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "arch/flops.h"
#include "arch/shard_rules.h"
#include "base/rng.h"
#include "base/timer.h"
#include "comm/free_memory.h"

namespace lockstep::lab {
namespace {

constexpr double learning_rate = 3e-4;

train::EngineConfig config_of(const StepShape& shape, const StepSettings& settings) {
  const Layout& layout = settings.layout;
  train::TrainedModel trained{.model = model_of(shape),
                              .weights = settings.weights,
                              .samples = shape.samples / layout.plan.dp / layout.plan.microbatches,
                              .positions = shape.positions};
  if (layout.documents) trained.document_end = 0;  // as often as any other token of a made-up text
  layout::ParallelPlan plan = arch::balanced(layout.plan, trained.model, shape.positions);
  return train::assemble(std::move(trained), {.plan = std::move(plan), .gradients = layout.gradients},
                         {.saves_beside = settings.saves_beside, .traced_steps = settings.traced_steps}, layout.moments);
}

}  // namespace

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
    : StepTraining(config_of(shape, settings), shape, runtime, ops, world) {}

StepTraining::StepTraining(const train::EngineConfig& config, const StepShape& shape, Runtime& runtime, ops::Ops& ops,
                           comm::Communicator& world)
    : stream_(ops.stream()),
      engine_(config, runtime, ops, world),
      batches_(shape, engine_.groups().at().dp, engine_.config().plan.dp, engine_.config().plan.microbatches) {
  const char* remedy = "a smaller shape, a layout that keeps less on each rank (memory.zero, recompute), or fewer ranks";
  if (runtime.device().is_host())
    comm::demand_free_memory(world, engine_.ledger().total(), fmt::format("not enough memory for steps of {}", shape.name),
                             remedy);
  engine_.commit();
  engine_.initialise();
}

train::StepResult StepTraining::step() { return engine_.step(batches_.all(), batches_.targets(), done_++, learning_rate); }

double StepTraining::timed_step(train::StepResult& result) {
  const double start = now_seconds();
  result = step();
  stream_.synchronize();
  return now_seconds() - start;
}

std::vector<Problem> check(const StepShape& shape, const Layout& layout, int ranks) {
  std::vector<Problem> problems = check(layout, arch::plan_limits(model_of(shape), shape.positions), ranks, bench_defaults);
  if (layout.servers > 0) {
    problems.push_back({fmt::format("ps={} in the layout: the ranks that are timed here all train", layout.servers),
                        "leave it out; lockstep bench staleness times parameter servers"});
  }
  const int parts = layout.plan.dp * layout.plan.microbatches;
  if (parts > 0 && shape.samples % parts != 0) {
    problems.push_back({fmt::format("layout {}: the {} samples of {} do not divide by dp x gas = {}",
                                    name_of(layout, bench_defaults), shape.samples, shape.name, parts),
                        "choose degrees that divide them, or a shape with more samples"});
  }
  return problems;
}

}  // namespace lockstep::lab
