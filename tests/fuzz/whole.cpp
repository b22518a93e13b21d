// All that a stranger's model brings, from reading it to using it. The input has config.json, tokenizer.json, a prompt and the
// weights, in this order. A line of "====" lies between them. A model that is accepted writes a text behind the prompt, and
// learns one step of it.

#include <algorithm>
#include <array>
#include <fstream>
#include <string>

#include "app/loaded_model.h"
#include "app/published/text_habits.h"
#include "checkpoint/huggingface/weights.h"
#include "fuzz/target.h"
#include "support/temp_folder.h"
#include "train/engine.h"
#include "train/sample.h"
#include "train/state.h"
#include "train/texts/texts.h"

namespace lockstep::fuzz {
namespace {

constexpr std::int64_t written = 3, learned = 6;

std::vector<std::string_view> split(std::string_view text) {
  constexpr std::string_view line = "\n====\n";
  std::vector<std::string_view> parts;
  for (int i = 0; i < 3; ++i) {
    const std::size_t end = text.find(line);
    if (end == text.npos) return {};
    parts.push_back(text.substr(0, end));
    text.remove_prefix(end + line.size());
  }
  parts.push_back(text);
  return parts;
}

void write_text(const app::LoadedModel& loaded, const std::vector<std::int32_t>& prompt, app::Session& session) {
  const arch::ModelConfig& model = loaded.inference->context().config;
  train::TextSampler sampler(loaded.inference->share());
  Arena workspace("sampling", MemoryKind::workspace), cache("sampling_cache", MemoryKind::workspace);
  sampler.declare(workspace, cache);
  Ledger ledger;
  workspace.commit(session.runtime(), ledger);
  cache.commit(session.runtime(), ledger);
  train::SampleOptions sampling;
  sampling.tokens = written;
  sampling.never = data::missing_ids(*loaded.tokenizer, model.vocabulary);
  Log log(stderr, Level::critical);
  train::write_texts({.texts = 1,
                      .prompt = prompt,
                      .sampling = sampling,
                      .ends = app::text_habits(loaded.manifest.run, loaded.tokenizer.get(), model.vocabulary, log).ends,
                      .stops = {"the", "e t"},
                      .behind = "\n"},
                     *loaded.tokenizer, sampler, *loaded.groups, [](std::string_view) {});
}

void learn(const std::string& folder, const app::LoadedModel& loaded, const std::vector<std::int32_t>& prompt,
           app::Session& session) {
  train::EngineConfig config;
  config.model = loaded.inference->context().config;
  config.positions = std::min(learned, config.model.block_size);
  train::Engine engine(config, session.runtime(), session.ops(), session.world());
  engine.commit();
  train::load_weights(checkpoint::huggingface::Weights(folder), engine, session.world(), session.team());
  std::array<std::int32_t, learned> tokens{}, targets{};
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    tokens[i] = prompt[i % prompt.size()];
    targets[i] = prompt[(i + 1) % prompt.size()];
  }
  const auto count = static_cast<std::size_t>(config.positions);
  const Shape shape{config.positions};
  const data::Batch batch{.tokens = view(std::span(tokens).first(count), shape),
                          .targets = view(std::span(targets).first(count), shape),
                          .samples = 1,
                          .positions = config.positions,
                          .target_count = config.positions};
  engine.step({&batch, 1}, config.positions, 0, 1e-3);
}

}  // namespace

void read(std::span<const std::byte> input) {
  const std::vector<std::string_view> parts = split(text_of(input));
  if (parts.empty()) return;
  const TempFolder folder;
  constexpr std::array names{"config.json", "tokenizer.json", "prompt", "model.safetensors"};
  for (std::size_t i = 0; i < names.size(); ++i) std::ofstream(folder / names[i], std::ios::binary) << parts[i];
  app::run_on_ranks({.threads = 1}, [&](app::Session& session) {
    Log log(stderr, Level::critical);
    app::ModelOptions options;
    options.model = folder.path().string();
    const app::LoadedModel loaded = app::load_model(options, 16, session, log);
    if (!loaded.tokenizer) return;
    const std::vector<std::int32_t> prompt =
        data::encode_prompt(*loaded.tokenizer, parts[2], loaded.inference->context().config.vocabulary, log);
    if (prompt.empty()) return;
    write_text(loaded, prompt, session);
    learn(options.model, loaded, prompt, session);
  });
}

}  // namespace lockstep::fuzz
