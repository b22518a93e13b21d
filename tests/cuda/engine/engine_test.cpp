// The whole engine on a GPU, emulated or there: training, evaluation, files, resuming and generation with the processor's bits.

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

#include "comm/thread/thread_world.h"
#include "device/choose_device.h"
#include "support/whole_run.h"

namespace lockstep::support {
namespace {

Machine gpu_of(int threads) {
  auto runtime = open_runtime(choose_device("cuda", 0), {.threads = threads});
  auto stream = runtime->make_stream();
  auto kernels = ops::make_ops(*runtime, *stream);
  return {std::move(runtime), std::move(stream), std::move(kernels)};
}

train::EngineConfig config_of(const arch::ModelConfig& model) {
  train::EngineConfig config = tiny_config(model);
  config.model.dropout = model.position == arch::PositionKind::rope ? 0 : 0.1F;
  config.plan.microbatches = 2;
  config.grad_clip = 0.1F;
  return config;
}

TEST(CudaEngine, TrainsSavesResumesAndWritesWithTheProcessorsBits) {
  for (const arch::ModelConfig& model : {tiny_model(), tiny_llama(), tiny_qwen2()}) {
    Machine near(2), gpu = gpu_of(2);
    const Left expected = whole_run(config_of(model), near), run = whole_run(config_of(model), gpu);
    EXPECT_EQ(run.numbers, expected.numbers);
    EXPECT_EQ(run.text, expected.text);
    EXPECT_TRUE(run.state == expected.state);
    EXPECT_TRUE(run.files == expected.files);
  }
}

TEST(CudaEngine, RanksMayBeThreads) {
  Machine near(1);
  const Left expected = whole_run(config_of(tiny_model()), near);
  std::vector<std::thread> ranks;
  std::atomic<int> same = 0;
  for (int rank = 0; rank < 3; ++rank) {
    ranks.emplace_back([&] {
      Machine gpu = gpu_of(1);
      same += whole_run(config_of(tiny_model()), gpu) == expected ? 1 : 0;
    });
  }
  for (std::thread& rank : ranks) rank.join();
  EXPECT_EQ(same, 3);
}

// A step's collectives are in tests of verify; here is what ranks compare and take from each other between steps.
TEST(CudaEngine, RanksOfOneWorldStartAlike) {
  comm::run_ranks(2, {.timeout = 60, .threads = 1}, [](comm::Communicator& world) {
    Machine gpu = gpu_of(1);
    world.attach(*gpu.stream, gpu.runtime->team());
    train::EngineConfig config = tiny_config(tiny_model());
    config.seed = 7U + static_cast<std::uint64_t>(world.rank());
    RankEngine engine(config, *gpu.runtime, *gpu.ops, world);
    engine.commit();
    engine.initialise();
    EXPECT_THROW(engine.check_state(), SystemError);
    engine.state().distribute(0);
    engine.check_state();
  });
}

}  // namespace
}  // namespace lockstep::support
