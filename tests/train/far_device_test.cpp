// Training, evaluation, files and generation on a device whose memory the host cannot reach: the bits of the ordinary one.

#include "support/far_device.h"

#include <gtest/gtest.h>

#include "support/whole_run.h"

namespace lockstep::train {
namespace {

using support::FarMachine;
using support::Machine;

std::vector<EngineConfig> configs() {
  std::vector<EngineConfig> all;
  for (const arch::ModelConfig& model : {support::tiny_model(), support::tiny_llama(), support::tiny_qwen2()}) {
    for (const parallel::WeightStorage& weights : {parallel::WeightStorage{}, support::bf16_with_masters, support::bf16_alone}) {
      EngineConfig config = support::tiny_config(model);
      config.model.width = 24;  // of heads and layers whose products can be packed
      config.model.head_size = 8;
      config.model.dropout = model.position == arch::PositionKind::rope ? 0 : 0.1F;
      config.weights = weights;
      config.plan.microbatches = 2;
      config.grad_clip = 0.1F;
      all.push_back(config);
    }
  }
  return all;
}

TEST(FarDevice, TrainsSavesResumesAndWritesWithTheBitsOfTheOrdinaryOne) {
  for (const EngineConfig& config : configs()) {
    Machine near(2);
    FarMachine far(2);
    const support::Left expected = support::whole_run(config, near), run = support::whole_run(config, far.machine());
    EXPECT_EQ(run.numbers, expected.numbers);
    EXPECT_EQ(run.text, expected.text);
    EXPECT_TRUE(run.state == expected.state);
    EXPECT_TRUE(run.files == expected.files);
  }
}

TEST(FarDevice, ATouchFromTheHostEndsTheProgram) {
  FarMachine far(1);
  Arena arena("memory", MemoryKind::workspace);
  Tensor x;
  arena.declare(x, "x", Shape{4}, DType::f32);
  Ledger ledger;
  arena.commit(*far.machine().runtime, ledger);
  far.machine().ops->elementwise().fill(x, 3);
  EXPECT_THROW(elements<float>(x), BrokenRule);
  EXPECT_DEATH(std::printf("%f", static_cast<double>(*reinterpret_cast<const float*>(x.data))), "");
}

}  // namespace
}  // namespace lockstep::train
