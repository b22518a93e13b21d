#pragma once

// A short run with all that a run does: training, evaluation, files, resuming, generation. Where devices have the same bits, all
// that it says and leaves is the same.

#include <string>
#include <vector>

#include "io/file.h"
#include "support/machine.h"
#include "support/temp_folder.h"
#include "support/tiny_engine.h"
#include "train/inference.h"
#include "train/sample.h"
#include "train/state.h"

namespace lockstep::support {

/// A device's tensor in host memory.
inline std::vector<std::byte> bytes_of(const Tensor& tensor, Machine& machine) {
  std::vector<std::byte> bytes(tensor.bytes());
  machine.stream->copy(bytes.data(), tensor.data, bytes.size());
  machine.stream->synchronize();
  return bytes;
}

/// What a short run says and leaves.
struct Left {
  std::vector<double> numbers;
  std::vector<std::vector<std::byte>> state;
  std::vector<std::int32_t> text;
  std::vector<std::string> files;
  bool operator==(const Left&) const = default;
};

inline void write_text(const train::ModelShare& model, Machine& machine, Left& run) {
  Arena workspace("sampling", MemoryKind::workspace), cache("cache", MemoryKind::workspace);
  train::TextSampler sampler(model);
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
inline void go_on(const train::EngineConfig& config, const io::Path& folder, Machine& machine, Left& run) {
  const checkpoint::Reader reader(folder);
  Team& team = machine.runtime->team();
  const auto engine = make_engine(config, machine);
  train::load_run(reader, *engine, *machine.world, team);
  const Batches batches(2, config.samples, config.positions, config.model.vocabulary, 2);
  const train::StepResult result = engine->step(batches.all(), batches.targets(), 3, 1e-2);
  run.numbers.insert(run.numbers.end(), {result.loss, result.gradient_norm});
  train::dump_step(folder / "dump.safetensors", *engine, batches.all(), result.loss);
  run.files.push_back(io::read_file(folder / "dump.safetensors"));

  const DataParallel alone(*machine.world);
  train::Inference inference(config.model, config.weights.type, *machine.runtime, *machine.ops, alone.groups);
  inference.load(reader, team);
  inference.prepack();
  write_text(inference.share(), machine, run);
}

inline Left whole_run(const train::EngineConfig& config, Machine& machine) {
  Left run;
  const auto engine = make_engine(config, machine);
  const Batches batches(2, config.samples, config.positions, config.model.vocabulary);
  for (std::int64_t step = 0; step < 3; ++step) {
    const train::StepResult result = engine->step(batches.all(), batches.targets(), step, 1e-2);
    run.numbers.insert(run.numbers.end(), {result.loss, result.gradient_norm});
  }
  run.numbers.push_back(engine->evaluate(batches.all()[1]));
  for_each_parameter(*engine, [&](const ParameterState& parameter) {
    for (const Tensor& tensor : {parameter.weight, parameter.gradient, parameter.exp_avg, parameter.exp_avg_sq})
      run.state.push_back(bytes_of(tensor, machine));
  });
  write_text(engine->share(), machine, run);
  const TempFolder folder;
  const io::Path saved =
      train::save_run(folder.path(), *engine, {.step = 3, .next_sample = 18}, Json::Object{}, machine.runtime->team()).folder;
  for (const auto name : {checkpoint::model_file, checkpoint::optimizer_file}) run.files.push_back(io::read_file(saved / name));
  go_on(config, saved, machine, run);
  return run;
}

}  // namespace lockstep::support
