// Passes that a GPU repeats as a graph: training has the processor's bits, and graphs were made where they may be.

#include <gtest/gtest.h>

#include <functional>
#include <vector>

#include "device/choose_device.h"
#include "emulation/emulation.h"
#include "support/whole_run.h"

namespace lockstep::support {
namespace {

constexpr int steps = 4;

Machine gpu_machine() {
  auto runtime = open_runtime(choose_device("cuda", 0), {.threads = 1});
  auto stream = runtime->make_stream();
  auto kernels = ops::make_ops(*runtime, *stream);
  return {std::move(runtime), std::move(stream), std::move(kernels)};
}

/// What steps with different batches say and leave, with an evaluation between them.
Left trained(const train::EngineConfig& config, Machine& machine) {
  Left run;
  const auto engine = make_engine(config, machine);
  for (std::int64_t step = 0; step < steps; ++step) {
    const Batches batches(config.plan.microbatches, config.samples, config.positions, config.model.vocabulary,
                          static_cast<std::uint64_t>(step) + 1);
    const train::StepResult result = engine->step(batches.all(), batches.targets(), step, 1e-2);
    run.numbers.insert(run.numbers.end(), {result.loss, result.gradient_norm});
    if (result.noise) run.numbers.push_back(result.noise->variance);
    if (step == 2) run.numbers.push_back(engine->evaluate(batches.all().front()));
  }
  for_each_parameter(*engine, [&](const ParameterState& parameter) { run.state.push_back(bytes_of(parameter.weight, machine)); });
  return run;
}

/// The number of graphs that were started, of a training with the processor's bits.
std::uint64_t graphs_of(const train::EngineConfig& config) {
  Machine near(1), gpu = gpu_machine();
  const std::uint64_t before = emulation::counts().graphs;
  EXPECT_TRUE(trained(config, gpu) == trained(config, near));
  return emulation::counts().graphs - before;
}

TEST(CudaRepeatedPasses, HaveTheProcessorsBits) {
  using Change = std::function<void(train::EngineConfig&)>;
  const std::vector<Change> changes{
      [](train::EngineConfig&) {},
      [](train::EngineConfig& config) { config.plan.microbatches = 3; },
      [](train::EngineConfig& config) {
        config.document_end = 5;
        config.model.window = config.positions / 2;
      },
      [](train::EngineConfig& config) { config.plan.recompute.kind = layout::Recompute::Kind::full; },
      [](train::EngineConfig& config) { config.plan.canonical = true; },
      [](train::EngineConfig& config) { config.model.adapter.rank = 2; },
      [](train::EngineConfig& config) { config.model.tied = !config.model.tied; },
  };
  for (std::size_t i = 0; i < changes.size(); ++i) {
    SCOPED_TRACE(i);
    train::EngineConfig config = tiny_config(tiny_llama());
    changes[i](config);
    EXPECT_EQ(graphs_of(config), steps - 1);
  }
}

TEST(CudaRepeatedPasses, AreNoneWhereStepsDiffer) {
  train::EngineConfig config = tiny_config(tiny_model());
  config.model.dropout = 0.1F;
  EXPECT_EQ(graphs_of(config), 0);
  config = tiny_config(tiny_llama());
  config.plan.optimizer.tier = layout::Tier::host;
  EXPECT_EQ(graphs_of(config), 0);
}

}  // namespace
}  // namespace lockstep::support
