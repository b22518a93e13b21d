#include "lab/staleness.h"

#include <fmt/format.h>

#include <array>
#include <utility>

#include "base/rng.h"
#include "base/units.h"

namespace lockstep::lab {

namespace {

// The start is the same for all, and so high that nothing else would show.
Series curve(const StalenessRun& run) {
  Series points{run.mode, {}, {}};
  if (run.asynchronous) points.name = run.bound ? fmt::format("async {}", *run.bound) : "async";
  for (std::size_t i = 0; i < run.validation.x.size(); ++i) {
    if (run.validation.x[i] == 0) continue;
    points.x.push_back(run.validation.x[i]);
    points.y.push_back(run.validation.y[i]);
  }
  return points;
}

}  // namespace

std::string StalenessRun::name() const {
  if (!asynchronous) return mode;
  return bound ? fmt::format("{}, bound {}", mode, *bound) : mode + ", no bound";
}

const StalenessRun* StalenessReport::synchronous() const {
  for (const StalenessRun& run : runs) {
    if (!run.asynchronous) return &run;
  }
  return nullptr;
}

double StalenessReport::difference(const StalenessRun& run) const {
  const StalenessRun* reference = synchronous();
  if (reference == nullptr || reference->final_loss() == 0) return 0;
  return 100 * (run.final_loss() / reference->final_loss() - 1);
}

Answer answer_of(const StalenessReport& report) {
  const auto numbers = [](const std::vector<double>& values) { return Json::Array(values.begin(), values.end()); };
  Answer answer;
  answer.facts({{"workers", report.workers}, {"servers", report.servers}, {"steps", report.steps}, {"tokens", report.tokens}});
  answer.say(fmt::format("{} steps of {} workers, {} tokens; beside them {} server{} where the mode has servers\n", report.steps,
                         report.workers, format_count(report.tokens), report.servers, report.servers == 1 ? "" : "s"));
  Table table({{"", "mode"},
               {"mode", "", ""},
               {"bound", "", ""},
               {"staleness_mean", "staleness mean", "{:.2f}"},
               {"staleness_max", "max"},
               {"val_loss", "validation loss", "{:.4f}"},
               {"difference_percent", "difference", "{:+.2f}%"},
               {"tokens_per_s", "tokens/s"},
               {"steps", "", ""},
               {"val_losses", "", ""}});
  std::vector<Series> curves;
  for (const StalenessRun& run : report.runs) {
    table.row({run.name(),
               run.mode,
               run.bound ? Json(*run.bound) : Json(),
               run.asynchronous ? Json(run.mean) : Json(),
               run.asynchronous ? Json(run.greatest) : Json(),
               run.final_loss(),
               report.difference(run),
               {run.tokens_per_second, format_si(run.tokens_per_second)},
               numbers(run.validation.x),
               numbers(run.validation.y)});
    curves.push_back(curve(run));
  }
  answer.table("runs", table);
  answer.say(
      "Staleness: updates of other workers between a worker's pull and its own update. Bound: steps that a worker may be ahead\n"
      "of the slowest. Difference: of the validation loss, to the first mode without staleness.\n\n");
  answer.say(plot("validation loss", "step", curves) + "\n");
  return answer;
}

std::string made_up_text(std::uint64_t seed, std::size_t bytes) {
  constexpr std::uint64_t words = 200, followers = 6;
  constexpr std::array syllables{"ka", "lo", "mi", "ten", "ra", "sul", "pe", "no", "dir", "va", "eth", "gu"};
  const CounterRng spelling(seed, "text.words"), following(seed, "text.following"), walk(seed, "text.walk");
  std::vector<std::string> dictionary;
  for (std::uint64_t w = 0; w < words; ++w) {
    std::string word;
    const std::uint64_t length = 1 + spelling.below(3, 8 * w);
    for (std::uint64_t i = 1; i <= length; ++i) word += syllables.at(spelling.below(syllables.size(), 8 * w + i));
    dictionary.push_back(std::move(word));
  }
  std::string text;
  std::uint64_t word = 0;
  for (std::uint64_t n = 0; text.size() < bytes; ++n) {
    text += dictionary[word];
    text += n % 11 == 10 ? ".\n" : " ";
    word = following.below(words, word * followers + walk.below(followers, n));
  }
  return text;
}

}  // namespace lockstep::lab
