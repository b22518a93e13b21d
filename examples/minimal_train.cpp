// A whole training run on one page: text becomes tokens, tokens become batches, an engine learns from them and writes text.
//
//   build/minimal_train [FILE]        # a text; this file when none is named
//
// `lockstep train` is the same with everything around it: files, evaluation, checkpoints, metrics, signals.

#include <algorithm>
#include <cstdio>
#include <exception>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/rng.h"
#include "comm/communicator.h"
#include "data/text/scan.h"
#include "data/tokenizer.h"
#include "device/runtime.h"
#include "io/file.h"
#include "ops/open_ops.h"
#include "train/engine.h"
#include "train/sample.h"

namespace {

using namespace lockstep;

constexpr std::int64_t steps = 300, samples = 12, positions = 64;

/// Batches of windows drawn from the text; window n is a function of n alone.
class Windows {
 public:
  explicit Windows(std::vector<std::int32_t> text)
      : text_(std::move(text)), tokens_(samples * positions), targets_(tokens_.size()) {
    const Shape shape{samples * positions};
    batch_ = {.tokens = view(std::span(tokens_), shape),
              .targets = view(std::span(targets_), shape),
              .samples = samples,
              .positions = positions,
              .target_count = samples * positions};
  }
  std::span<const data::Batch> draw(std::int64_t step) {
    for (std::int64_t row = 0; row < samples; ++row) {
      const auto sample = static_cast<std::uint64_t>(step * samples + row);
      const auto start = static_cast<std::ptrdiff_t>(random_.below(text_.size() - positions, sample));
      std::copy_n(text_.begin() + start, positions, tokens_.begin() + row * positions);
      std::copy_n(text_.begin() + start + 1, positions, targets_.begin() + row * positions);
    }
    batch_.first_sample = static_cast<std::uint64_t>(step * samples);
    return {&batch_, 1};
  }

 private:
  CounterRng random_{1337, "minimal.windows"};
  std::vector<std::int32_t> text_, tokens_, targets_;
  data::Batch batch_;
};

void run(const std::string& path) {
  // Text: one token a character.
  const std::string text = io::read_file(path);
  data::TextScan scan;
  scan.add(text);
  const auto tokenizer = data::make_char_tokenizer(scan.characters());
  std::vector<std::int32_t> ids(text.size());
  std::string unknown;
  ids.resize(tokenizer->encode(text, ids, unknown));
  Windows windows(std::move(ids));

  // Machine: a device, its kernels, and a world of one rank.
  const std::unique_ptr<Runtime> runtime = open_runtime({});
  const std::unique_ptr<Stream> stream = runtime->make_stream();
  const std::unique_ptr<ops::Ops> kernels = ops::make_ops(*runtime, *stream);
  const std::unique_ptr<comm::Communicator> world = comm::make_self();

  // Model: everything is declared first, then allocated once.
  train::EngineConfig config;
  config.model.layers = 2;
  config.model.heads = config.model.kv_heads = 4;
  config.model.width = 64;
  config.model.head_size = 16;
  config.model.ffn_width = 256;
  config.model.block_size = positions;
  config.model.vocabulary = tokenizer->vocabulary();
  config.samples = samples;
  config.positions = positions;
  train::Engine engine(config, *runtime, *kernels, *world);
  engine.commit();
  engine.initialise();

  for (std::int64_t step = 0; step < steps; ++step) {
    const train::StepResult result = engine.step(windows.draw(step), samples * positions, step, 3e-3);
    if (step % 50 == 0 || step + 1 == steps) std::printf("step %3d  loss %.4f\n", static_cast<int>(step), result.loss);
  }

  // Text out of the model.
  train::TextSampler sampler(engine.share());
  Arena workspace("sampler", MemoryKind::workspace), cache("cache", MemoryKind::activations);
  sampler.declare(workspace, cache);
  Ledger ledger;
  workspace.commit(*runtime, ledger);
  cache.commit(*runtime, ledger);
  const std::vector<std::int32_t> prompt = {0};
  sampler.run(prompt, {.tokens = 200}, [&](std::int32_t id) {
    std::fputs(std::string(tokenizer->bytes(id)).c_str(), stdout);
    return true;
  });
  std::puts("");
}

}  // namespace

int main(int argc, char** argv) {
  try {
    run(argc > 1 ? argv[1] : "examples/minimal_train.cpp");
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
