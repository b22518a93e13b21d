// Training, evaluation, files and generation on a device whose memory the host cannot reach: the bits of the ordinary one.

#include "support/far_device.h"

#include <gtest/gtest.h>

#include "support/temp_folder.h"
#include "support/tiny_engine.h"
#include "train/inference.h"
#include "train/sample.h"
#include "train/state.h"

namespace lockstep::train {
namespace {

using support::Batches;
using support::FarMachine;
using support::Machine;

/// A device's tensor in host memory.
std::vector<std::byte> bytes_of(const Tensor& tensor, Machine& machine) {
  std::vector<std::byte> bytes(tensor.bytes());
  machine.stream->copy(bytes.data(), tensor.data, bytes.size());
  return bytes;
}

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

/// What a short run says and leaves.
struct Left {
  std::vector<double> numbers;
  std::vector<std::vector<std::byte>> state;
  std::vector<std::int32_t> text;
  std::vector<std::string> files;
  bool operator==(const Left&) const = default;
};

void write_text(const ModelShare& model, Machine& machine, Left& run) {
  Arena workspace("sampling", MemoryKind::workspace), cache("cache", MemoryKind::workspace);
  TextSampler sampler(model);
  sampler.declare(workspace, cache);
  Ledger ledger;
  workspace.commit(*machine.runtime, ledger);
  cache.commit(*machine.runtime, ledger);
  const std::vector<std::int32_t> prompt{3, 1, 4, 1, 5};
  sampler.run(prompt, {.tokens = 9}, [&](std::int32_t token) {
    run.text.push_back(token);
    return true;
  });
}

/// One step more, by an engine that goes on where the files end, and a text by a model that was read from them.
void go_on(const EngineConfig& config, const io::Path& folder, Machine& machine, Left& run) {
  const checkpoint::Reader reader(folder);
  Team& team = machine.runtime->team();
  const auto engine = support::make_engine(config, machine);
  load_run(reader, *engine, *machine.world, team);
  const Batches batches(2, config.samples, config.positions, config.model.vocabulary, 2);
  const StepResult result = engine->step(batches.all(), batches.targets(), 3, 1e-2);
  run.numbers.insert(run.numbers.end(), {result.loss, result.gradient_norm});
  dump_step(folder / "dump.safetensors", *engine, batches.all(), result.loss);
  run.files.push_back(io::read_file(folder / "dump.safetensors"));

  const support::DataParallel alone(*machine.world);
  Inference inference(config.model, config.weights.type, *machine.runtime, *machine.ops, alone.groups);
  inference.load(reader, team);
  inference.prepack();
  write_text(inference.share(), machine, run);
}

Left train(const EngineConfig& config, Machine& machine) {
  Left run;
  const auto engine = support::make_engine(config, machine);
  const Batches batches(2, config.samples, config.positions, config.model.vocabulary);
  for (std::int64_t step = 0; step < 3; ++step) {
    const StepResult result = engine->step(batches.all(), batches.targets(), step, 1e-2);
    run.numbers.insert(run.numbers.end(), {result.loss, result.gradient_norm});
  }
  run.numbers.push_back(engine->evaluate(batches.all()[1]));
  support::for_each_parameter(*engine, [&](const support::ParameterState& parameter) {
    for (const Tensor& tensor : {parameter.weight, parameter.gradient, parameter.exp_avg, parameter.exp_avg_sq})
      run.state.push_back(bytes_of(tensor, machine));
  });
  write_text(engine->share(), machine, run);
  const TempFolder folder;
  const io::Path saved =
      save_run(folder.path(), *engine, {.step = 3, .next_sample = 18}, Json::Object{}, machine.runtime->team()).folder;
  for (const auto name : {checkpoint::model_file, checkpoint::optimizer_file}) run.files.push_back(io::read_file(saved / name));
  go_on(config, saved, machine, run);
  return run;
}

TEST(FarDevice, TrainsSavesResumesAndWritesWithTheBitsOfTheOrdinaryOne) {
  for (const EngineConfig& config : configs()) {
    Machine near(2);
    FarMachine far(2);
    const Left expected = train(config, near), run = train(config, far.machine());
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
