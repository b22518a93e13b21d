// `lockstep bench serve`: how fast a model writes texts side by side.

#include <fmt/format.h>

#include <numeric>

#include "app/bench/bench.h"
#include "app/serve/text_engine.h"
#include "base/median.h"
#include "base/number_text.h"
#include "base/timer.h"
#include "lab/machine.h"

namespace lockstep::app {
namespace {

struct Measured {
  double prompt = 0, writing = 0;  ///< seconds until every text has its first token, and behind that
};

/// `texts` texts with prompts of their own, which no round has had before.
Measured write_texts(TextEngine& engine, std::int64_t texts, std::int64_t prompt, std::int64_t tokens, std::int64_t round) {
  const std::int64_t vocabulary = engine.model().vocabulary;
  for (std::int64_t text = 0; text < texts; ++text) {
    std::vector<std::int32_t> ids(static_cast<std::size_t>(prompt));
    const CounterRng rng(static_cast<std::uint64_t>(round), fmt::format("bench.{}", text));
    for (std::size_t i = 0; i < ids.size(); ++i)
      ids[i] = static_cast<std::int32_t>(rng.below(static_cast<std::uint64_t>(vocabulary), i));
    ensure(engine.batch().begin({.prompt = std::move(ids), .sampling = {.tokens = tokens, .temperature = 0}}).has_value(),
           "all have room");
  }
  Measured measured;
  std::int64_t first = 0;
  const double start = now_seconds();
  std::vector<bool> begun(static_cast<std::size_t>(texts));
  while (engine.batch().step([&](const train::WrittenToken& written) {
    if (begun[static_cast<std::size_t>(written.place)]) return;
    begun[static_cast<std::size_t>(written.place)] = true;
    if (++first == texts) measured.prompt = now_seconds() - start;
  })) {
  }
  measured.writing = now_seconds() - start - measured.prompt;
  return measured;
}

std::optional<Answer> run_serve(BenchLine& line) {
  ModelOptions from;
  std::string list = "1,8";
  std::int64_t prompt = 512, tokens = 64, rounds = 3;
  from.declare(line, "the texts");
  line.option("--texts", list, "A,B,C", "texts that are written side by side");
  line.count("--prompt", prompt, "N", "tokens of each prompt", 1, 1 << 20);
  line.count("--tokens", tokens, "N", "that are written behind it", 2, 1 << 20);
  line.ask_rounds(rounds, "each of which measures every number of texts once");
  if (!line.read()) return {};
  std::vector<std::int64_t> texts;
  for (const std::string& part : parts_of_list(list)) texts.push_back(number_from<std::int64_t>(part).value_or(0));
  line.demand(std::ranges::all_of(texts, [](std::int64_t count) { return count >= 1 && count <= 1024; }),
              fmt::format("--texts {}: must be whole numbers from 1 to 1024 with commas between", list), "--texts 1,8");
  from.read(line.problems());
  line.demand(from.layout.ranks_to_start() == 1, "bench serve has one rank", "leave out --ranks and --layout");
  return line.on_ranks(from.ranks(), [&](Session& session) {
    Log log(stderr, Level::warning);
    const std::int64_t most = *std::ranges::max_element(texts), context = prompt + tokens;
    TextEngine engine(
        from,
        {.name = {}, .chat_template = {}, .context = context, .texts = most, .cache = most * context + most * ops::page_keys},
        session, log);
    if (engine.model().longest < context)
      throw UserError(fmt::format("--prompt {} --tokens {}: the model's texts have at most {} tokens", prompt, tokens,
                                  engine.model().longest),
                      "take fewer");
    const double bytes = static_cast<double>(engine.weight_bytes());
    std::vector<std::vector<double>> prompts(texts.size()), writings(texts.size()), shares;
    shares.resize(texts.size());
    ProgressBar bar = line.bar(static_cast<double>(texts.size()) * static_cast<double>(rounds));
    for (std::int64_t round = 0; round < rounds; ++round) {
      for (std::size_t i = 0; i < texts.size(); ++i) {
        const Measured measured = write_texts(engine, texts[i], prompt, tokens, round * 100 + static_cast<std::int64_t>(i));
        const double rate = lab::read_bandwidth(session.team(), session.runtime().memory(), engine.weight_bytes());
        prompts[i].push_back(static_cast<double>(texts[i] * prompt) / measured.prompt);
        writings[i].push_back(static_cast<double>(texts[i] * (tokens - 1)) / measured.writing);
        shares[i].push_back(100 * static_cast<double>(tokens - 1) * bytes / measured.writing / rate);
        bar.update(static_cast<double>(round) * static_cast<double>(texts.size()) + static_cast<double>(i) + 1, "");
      }
    }
    bar.finish();
    Table table({{"texts", "texts"},
                 {"prompt_tokens_per_second", "prompt tokens/s", "{:.1f}"},
                 {"tokens_per_second", "tokens/s", "{:.1f}"},
                 {"percent_of_reading", "% of reading weights", "{:.0f}"}});
    for (std::size_t i = 0; i < texts.size(); ++i)
      table.row({texts[i], median_of(prompts[i]), median_of(writings[i]), median_of(shares[i])});
    Answer answer;
    answer.say(fmt::format("{}: prompts of {} tokens, {} written behind each; medians of {} rounds\n", engine.model().name,
                           prompt, tokens, rounds));
    answer.table("texts", table);
    return answer;
  });
}

}  // namespace

Bench serve_bench() {
  return {"serve", "how fast a model writes texts side by side",
          "Times a model that reads prompts and writes texts behind them, as the server does: one text, and several side by "
          "side. The last "
          "column sets a pass beside the reading of as many bytes as the weights have: 100 is the floor of one text.",
          "example:\n  lockstep bench serve models/qwen --texts 1,8 --prompt 512 --tokens 64", run_serve};
}

}  // namespace lockstep::app
