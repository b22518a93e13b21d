#include <fmt/format.h>

#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <optional>
#include <utility>

#include "app/command_line.h"
#include "app/commands.h"
#include "app/loaded_model.h"
#include "base/terminal.h"
#include "io/file.h"
#include "lab/machine.h"
#include "train/texts.h"

namespace lockstep::app {
namespace {

struct GenerateOptions {
  std::string model;
  std::string prompt = "\n";
  std::string checkpoint = "best";
  std::string isa = "auto";
  std::string dtype = std::string(stored_dtype);
  std::int64_t samples = 1;
  std::int64_t threads = 0, ranks = 1, tp = 1, pp = 1;
  train::SampleOptions sampling;
  std::int64_t seed = 1337;
  bool ignore_end = false;
};

bool parse(const Arguments& arguments, GenerateOptions& options) {
  CommandLine line(
      "generate",
      "Write text with a trained model. The text goes to standard output as it is written, everything else to standard error.");
  line.option("--model", options.model, "FOLDER", "folder of a run, a checkpoint or a Hugging Face model");
  line.option("--prompt", options.prompt, "TEXT", "text to continue; FILE:path reads it from a file");
  line.option("--checkpoint", options.checkpoint, "WHICH", "best, last or a step number");
  line.option("--samples", options.samples, "N", "texts to write");
  line.option("--tokens", options.sampling.tokens, "N", "at most so many tokens a text");
  line.flag("--ignore-end", options.ignore_end, "go on where the model ends a text (<|endoftext|> and the like)");
  line.option("--temperature", options.sampling.temperature, "T", "0 takes the likeliest token every time");
  line.option("--top-k", options.sampling.top_k, "K", "draw from the K likeliest tokens; 0: from all");
  line.option("--top-p", options.sampling.top_p, "P", "draw from the likeliest tokens with this probability together");
  line.option("--seed", options.seed, "N", "the same seed writes the same texts");
  line.option("--ranks", options.ranks, "N", "ranks that share the texts and the cores");
  line.option("--tp", options.tp, "N", "of the ranks so many together have one copy of the model, each a part of every layer");
  line.option("--pp", options.pp, "N", "of the ranks so many together have one copy of the model, each a part of its layers");
  line.option("--threads", options.threads, "N", "of each rank; 0: its share of the cores");
  line.choice("--dtype", options.dtype, dtype_choices(), "type of weights and activations; stored: as it was trained");
  line.option("--isa", options.isa, "SET", "auto, avx2, avx512, avx512_bf16");
  line.note("example:\n  lockstep generate --model runs/first --prompt \"What is\" --samples 3 --tokens 200");
  if (!line.parse(arguments)) return false;
  std::vector<Problem> problems;
  const auto require = [&](bool holds, std::string message, std::string remedy) {
    if (!holds) problems.push_back({std::move(message), std::move(remedy)});
  };
  require(!options.model.empty(), "--model is missing", "give the folder of a run: --model runs/NAME");
  require(options.samples >= 1, fmt::format("--samples {}: must be at least 1", options.samples), "--samples 1");
  require(options.sampling.tokens >= 1, fmt::format("--tokens {}: must be at least 1", options.sampling.tokens), "--tokens 256");
  require(options.sampling.temperature >= 0 && std::isfinite(options.sampling.temperature),
          fmt::format("--temperature {}: must be a number of at least 0", options.sampling.temperature), "--temperature 0.8");
  require(options.sampling.top_k >= 0, fmt::format("--top-k {}: must not be negative", options.sampling.top_k), "--top-k 16");
  require(options.sampling.top_p > 0 && options.sampling.top_p <= 1,
          fmt::format("--top-p {}: must be in (0, 1]", options.sampling.top_p), "--top-p 1");
  require(options.seed >= 0, fmt::format("--seed {}: must not be negative", options.seed), "--seed 1337");
  if (!problems.empty()) throw UserError(std::move(problems));
  options.sampling.seed = static_cast<std::uint64_t>(options.seed);
  return true;
}

std::string prompt_text(const std::string& prompt) {
  constexpr std::string_view marker = "FILE:";
  return prompt.rfind(marker, 0) == 0 ? io::read_file(prompt.substr(marker.size())) : prompt;
}

void put(std::string_view text) {
  if (!say(stdout, text)) throw SystemError(fmt::format("the output cannot be written: {}", std::strerror(errno)));
}

void generate(const GenerateOptions& options, Session& session) {
  Log log(stderr, session.lead() ? Level::warning : Level::critical);
  const std::string text = prompt_text(options.prompt);
  if (text.empty())
    throw UserError(fmt::format("--prompt \"{}\": there is no text in it", options.prompt), "--prompt \"What is\"");
  constexpr std::int64_t most_tokens_a_byte = 4;  // of a normalised text
  const std::int64_t longest = options.sampling.tokens + most_tokens_a_byte * std::ssize(text) + 1;
  const LoadedModel loaded =
      load_model(options.model, options.checkpoint,
                 {.type = chosen_dtype(options.dtype), .context = longest, .tp = options.tp, .pp = options.pp}, session, log);
  if (!loaded.tokenizer) {
    throw UserError(fmt::format("{}, so it cannot read text", loaded.no_tokenizer),
                    "prepare the text with `lockstep prepare` and train on that, or put the model's tokenizer.json beside it");
  }
  const std::int64_t vocabulary = loaded.inference->context().config.vocabulary;
  train::SampleOptions sampling = options.sampling;
  sampling.never = data::missing_ids(*loaded.tokenizer, vocabulary);
  const train::TextsRequest request{.texts = options.samples,
                                    .prompt = data::encode_prompt(*loaded.tokenizer, text, vocabulary, log),
                                    .sampling = std::move(sampling),
                                    .end = options.ignore_end ? std::nullopt : loaded.tokenizer->end_of_text(),
                                    .behind = options.samples > 1 ? "\n---------------\n" : "\n"};
  if (request.prompt.empty()) {
    throw UserError(fmt::format("nothing of the prompt \"{}\" is in the model's vocabulary", options.prompt),
                    "use characters of the text it was trained on");
  }
  loaded.inference->prepack();
  train::TextSampler sampler(loaded.inference->share());
  Arena workspace("sampling", MemoryKind::workspace);
  Arena cache("sampling_cache", MemoryKind::workspace);
  sampler.declare(workspace, cache);
  Ledger ledger;
  workspace.commit(session.runtime(), ledger);
  cache.commit(session.runtime(), ledger);
  const train::Pace pace = train::write_texts(request, *loaded.tokenizer, sampler, *loaded.groups, put);
  if (!session.lead() || pace.tokens < 2) return;
  const double share = pace.rate() * static_cast<double>(loaded.inference->weight_bytes()) /
                       lab::read_bandwidth(session.team(), session.runtime().memory());
  fmt::print(stderr, "{:.1f} tokens/s, {:.0f} % of what reading every weight once a token allows{}\n", pace.rate(), 100 * share,
             session.world().size() > 1 ? ", on each rank" : "");
}

int run(const Arguments& arguments) {
  GenerateOptions options;
  if (!parse(arguments, options)) return 0;
  const RankOptions ranks{.ranks = options.ranks, .threads = options.threads, .isa = ops::isa_from_name(options.isa)};
  run_on_ranks(ranks, [&](Session& session) { generate(options, session); });
  return 0;
}

}  // namespace

Command generate_command() { return {"generate", "write text with a trained model", run}; }

}  // namespace lockstep::app
