#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include "app/cli/command_line.h"
#include "app/cli/commands.h"
#include "app/loaded_model.h"
#include "app/published/text_habits.h"
#include "app/sampling_options.h"
#include "app/settings/foreign/other_words.h"
#include "base/terminal.h"
#include "base/text/utf8.h"
#include "base/units.h"
#include "io/file.h"
#include "lab/machine.h"
#include "train/texts/texts.h"

namespace lockstep::app {
namespace {

struct GenerateOptions {
  ModelOptions from;
  std::string prompt = "\n";
  std::int64_t samples = 1;
  std::int64_t tokens = 256;
  SamplingOptions sampling;
  std::vector<std::string> stops;
  bool ignore_end = false;
};

bool parse(const Arguments& arguments, GenerateOptions& options) {
  CommandLine line(
      "generate",
      "Write text with a trained model. The text goes to standard output as it is written, everything else to standard error.");
  options.from.declare(line, "the texts and the cores");
  line.option("--prompt", options.prompt, "TEXT", "text to continue; FILE:path reads it from a file");
  line.option("--samples", options.samples, "N", "texts to write");
  line.option("--tokens", options.tokens, "N", "at most so many tokens a text");
  line.option("--stop", options.stops, "TEXT", "a text ends before this text; may be given several times");
  line.flag("--ignore-end", options.ignore_end,
            "go on where the model ends a text: at <|endoftext|> and the like, the eos_token_id of config.json and "
            "generation_config.json, or the end of its documents");
  options.sampling.declare(line, "the same seed writes the same texts");
  line.undeclared(other_words(WordsOf::generate));
  line.daily({"--prompt", "--samples", "--tokens", "--stop", "--temperature", "--top-k", "--top-p", "--seed", "--ranks"});
  line.note(
      "What a published model's generation_config.json says of temperature, top-k and top-p is the default, and said in a line. "
      "A line also says what it asks for that is not done here.");
  line.note("example:\n  lockstep generate runs/first --prompt \"What is\" --samples 3 --tokens 200");
  if (!line.parse(arguments)) return false;
  std::vector<Problem> problems;
  const auto require = [&](bool holds, std::string message, std::string remedy) {
    if (!holds) problems.push_back({std::move(message), std::move(remedy)});
  };
  require(options.samples >= 1, fmt::format("--samples {}: must be at least 1", options.samples), "--samples 1");
  require(options.tokens >= 1, fmt::format("--tokens {}: must be at least 1", options.tokens), "--tokens 256");
  require(std::ranges::find(options.stops, "") == options.stops.end(),
          "--stop \"\": there is no text in it, so nothing would be written", "leave it out, or name the text that ends one");
  options.sampling.check(problems);
  options.from.read(problems);
  if (!problems.empty()) throw UserError(std::move(problems));
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
  if (text.starts_with(byte_order_mark)) log.warning("the prompt begins with a byte order mark (U+FEFF), which is a part of it");
  constexpr std::int64_t most_tokens_a_byte = 4;  // of a normalised text
  const std::int64_t longest = options.tokens + most_tokens_a_byte * std::ssize(text) + 1;
  const LoadedModel loaded = load_model(options.from, longest, session, log);
  if (!loaded.tokenizer) {
    throw UserError(fmt::format("{}, so it cannot read text", loaded.no_tokenizer),
                    "prepare the text with `lockstep prepare` and train on that, or put the model's tokenizer.json beside it");
  }
  const std::int64_t vocabulary = loaded.inference->context().config.vocabulary;
  TextHabits habits = text_habits(loaded.manifest.run, loaded.tokenizer.get(), vocabulary, log);
  std::vector<std::string> stops = options.stops;
  if (options.ignore_end) {
    habits.ends.clear();
  } else {
    stops.insert(stops.end(), habits.generation.stops.begin(), habits.generation.stops.end());
  }
  train::SampleOptions sampling = options.sampling.sampling(habits, log);
  sampling.tokens = options.tokens;
  warn_of_undone(habits, log);
  const train::TextsRequest request{.texts = options.samples,
                                    .prompt = data::encode_prompt(*loaded.tokenizer, text, vocabulary, log),
                                    .sampling = std::move(sampling),
                                    .ends = std::move(habits.ends),
                                    .stops = std::move(stops),
                                    .behind = options.samples > 1 ? "\n---------------\n" : "\n"};
  if (request.prompt.empty()) {
    throw UserError(fmt::format("nothing of the prompt \"{}\" is in the model's vocabulary", options.prompt),
                    "use characters of the text it was trained on");
  }
  if (const std::int64_t most = loaded.inference->context().config.block_size, size = std::ssize(request.prompt); size > most) {
    log.warning(fmt::format("the prompt has {} tokens, and the model reads {}: the first {} are left out", format_count(size),
                            format_count(most), format_count(size - most)));
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
                       lab::read_bandwidth(session.team(), session.runtime().memory(), loaded.inference->weight_bytes());
  fmt::print(stderr, "{:.1f} tokens/s, {:.0f} % of what reading every weight once a token allows{}\n", pace.rate(), 100 * share,
             session.world().size() > 1 ? ", on each rank" : "");
}

int run(const Arguments& arguments) {
  GenerateOptions options;
  if (!parse(arguments, options)) return 0;
  run_on_ranks(options.from.ranks(), [&](Session& session) { generate(options, session); });
  return 0;
}

}  // namespace

Command generate_command() { return {"generate", "write text with a trained model", run}; }

}  // namespace lockstep::app
