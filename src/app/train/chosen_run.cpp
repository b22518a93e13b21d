#include "app/train/chosen_run.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "app/settings/run_layout.h"
#include "arch/flops.h"
#include "arch/parameters.h"
#include "base/units.h"
#include "comm/agreement.h"
#include "comm/text.h"
#include "data/corpus.h"
#include "data/prepare/dataset.h"
#include "data/token_description.h"
#include "io/file.h"
#include "lab/machine.h"

namespace lockstep::app {
namespace {

struct ModelSize {
  std::int64_t layers, heads, width, block;
  double rate;  ///< of the optimizer
};
constexpr std::array<ModelSize, 6> model_sizes{{{4, 4, 64, 64, 1e-3},
                                                {4, 4, 128, 128, 1e-3},
                                                {4, 4, 256, 128, 1e-3},
                                                {8, 8, 384, 256, 6e-4},
                                                {8, 8, 512, 256, 6e-4},
                                                {12, 12, 768, 256, 6e-4}}};
constexpr double tokens_a_parameter = 3;
constexpr double times_the_text = 40;
constexpr double share_of_peak = 0.5;  ///< what steps of such models reach of the multiply-add rate
constexpr std::int64_t evaluations = 8;
constexpr std::int64_t least_steps = 100, most_steps = 5000;

RunConfig config_of(const ModelSize& size) {
  RunConfig config;
  config.model.n_layer = size.layers;
  config.model.n_head = size.heads;
  config.model.n_embd = size.width;
  config.model.block_size = size.block;
  return config;
}

/// One size, trained for the time.
struct Candidate {
  ModelSize size;
  double tokens, parameters;
};

Candidate candidate(const ModelSize& size, const ChoiceFacts& facts) {
  const RunConfig config = config_of(size);
  const arch::ModelConfig model = model_config(config, facts.vocabulary);
  const double tokens = facts.flops_per_second * facts.minutes * 60 / arch::training_flops_per_token(model, size.block);
  const double parameters = static_cast<double>(arch::count_parameters(model, config.optimizer.decay).without_positions);
  return {size, tokens, parameters};
}

Candidate best_candidate(const ChoiceFacts& facts) {
  Candidate best = candidate(model_sizes[0], facts);
  for (const ModelSize& size : model_sizes) {
    const Candidate next = candidate(size, facts);
    const bool fits = facts.val_tokens >= 4 * size.block && facts.train_tokens >= 4 * size.block;
    if (fits && next.tokens >= tokens_a_parameter * next.parameters) best = next;
  }
  // A short text has no windows of the least context.
  while (best.size.block > 8 && std::min(facts.val_tokens, facts.train_tokens) < 4 * best.size.block) best.size.block /= 2;
  return best;
}

std::vector<std::string> words_of(const ModelSize& size, std::int64_t batch, std::int64_t steps, std::int64_t eval_batches) {
  return {fmt::format("model.n_layer={}", size.layers),
          fmt::format("model.n_head={}", size.heads),
          fmt::format("model.n_embd={}", size.width),
          fmt::format("model.block_size={}", size.block),
          fmt::format("model.batch_size={}", batch),
          fmt::format("train.max_iters={}", steps),
          fmt::format("train.warmup_iters={}", std::min<std::int64_t>(100, steps / 20)),
          fmt::format("train.eval_interval={}", (steps + evaluations - 1) / evaluations),
          fmt::format("train.eval_iters={}", eval_batches),
          fmt::format("optimizer.learning_rate={}", size.rate),
          fmt::format("optimizer.min_lr={}", size.rate / 10),
          fmt::format("optimizer.lr_decay_iters={}", steps),
          "optimizer.beta2=0.99",
          "optimizer.schedule=nanogpt"};
}

std::string duration(double seconds) {
  if (seconds < 90) return fmt::format("{:.0f} seconds", std::max(1.0, seconds));
  return fmt::format("{:.0f} minutes", seconds / 60);
}

/// What is known of the text: that of its folder, or, before it is prepared, what its size lets expect.
void read_text(const RunConfig& config, ChoiceFacts& facts) {
  const io::Path folder = data_folder(config);
  if (io::exists(folder / "train.bin")) {
    Log quiet(stderr, Level::critical);
    const data::Corpus corpus = data::open_corpus(folder, {.vocabulary = config.model.vocab_size, .ids = config.data.ids}, quiet);
    facts.vocabulary = corpus.vocabulary();
    facts.train_tokens = corpus.train.tokens();
    facts.val_tokens = corpus.val.tokens();
    return;
  }
  constexpr std::int64_t tiny_shakespeare = 1115394;
  const std::int64_t characters =
      config.data.file ? static_cast<std::int64_t>(io::File::open_to_read(*config.data.file).size()) : tiny_shakespeare;
  facts.vocabulary = known_vocabulary(config);
  facts.train_tokens = characters * 9 / 10;
  facts.val_tokens = characters - facts.train_tokens;
}

}  // namespace

ChosenRun choose_run(const ChoiceFacts& facts) {
  const Candidate best = best_candidate(facts);
  const double most = times_the_text * static_cast<double>(facts.train_tokens);
  const double tokens = std::min(best.tokens, most);
  const auto steps_with = [&](std::int64_t batch) {
    const double each = static_cast<double>(batch * facts.sequences_per_step * best.size.block);
    return std::max<std::int64_t>(least_steps, std::llround(tokens / each));
  };
  std::int64_t batch = 16;
  while (steps_with(batch) > most_steps) batch *= 2;
  const std::int64_t steps = steps_with(batch);
  const std::int64_t each = batch * facts.sequences_per_step * best.size.block;
  // Two texts, evaluated at the start too.
  const double windows = 0.05 * static_cast<double>(steps * each) / static_cast<double>(2 * (evaluations + 1) * best.size.block);
  const std::int64_t eval_batches = std::clamp<std::int64_t>(static_cast<std::int64_t>(windows) / batch, 1, 200);
  const double seconds = facts.minutes * 60 * static_cast<double>(steps * each) / best.tokens;
  const std::string all = tokens < best.tokens ? fmt::format(", {:.0f} times the text", times_the_text) : "";
  return {words_of(best.size, batch, steps, eval_batches),
          fmt::format("Chosen for {} here: {} layers of width {} ({:.2f} M parameters), {} steps of {} tokens{}. "
                      "Change it by --minutes 30, model=gpt2, or a recipe (--config FILE)",
                      duration(seconds), best.size.layers, best.size.width, best.parameters / 1e6, format_count(steps),
                      format_count(each), all)};
}

std::vector<std::string> least_choice() { return words_of(model_sizes[0], 16, 1000, 4); }

std::int64_t known_vocabulary(const RunConfig& config) {
  const io::Path folder = data_folder(config);
  if (io::is_folder(folder)) {
    if (const auto description = data::read_description(folder)) return description->format.vocabulary;
  }
  if (config.data.file) return data::own_tokenizer(*config.data.file).vocabulary;
  constexpr std::int64_t tiny_shakespeare = 65;
  return config.data.dataset == "shakespeare_char" && !config.data.dir ? tiny_shakespeare : data::TokenFormat{}.vocabulary;
}

ChosenRun choose_together(const RunConfig& config, double minutes, Session& session) {
  std::string told;
  comm::together(session.world(), [&] {
    if (!session.lead()) return;
    const std::int64_t workers = workers_of(config, session.world().size());
    ChoiceFacts facts{.flops_per_second = share_of_peak * lab::fma_peak(session.team()) * static_cast<double>(workers),
                      .sequences_per_step = config.optimizer.gas * replicas_of(config, session.world().size()),
                      .minutes = minutes};
    read_text(config, facts);
    const ChosenRun chosen = choose_run(facts);
    told = fmt::format("{}\n{}", chosen.line, fmt::join(chosen.settings, "\n"));
  });
  told = comm::lead_text(session.world(), std::move(told));
  ChosenRun chosen;
  std::size_t at = told.find('\n');
  chosen.line = told.substr(0, at);
  while (at != std::string::npos) {
    const std::size_t end = told.find('\n', at + 1);
    chosen.settings.push_back(told.substr(at + 1, end == std::string::npos ? end : end - at - 1));
    at = end;
  }
  return chosen;
}

}  // namespace lockstep::app
