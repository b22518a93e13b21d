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

std::string to_text(const StalenessReport& report) {
  std::string text =
      fmt::format("{} steps of {} workers, {} tokens; beside them {} server{} where the mode has servers\n", report.steps,
                  report.workers, format_count(report.tokens), report.servers, report.servers == 1 ? "" : "s");
  text += "mode                    staleness mean   max   validation loss   difference     tokens/s\n";
  std::vector<Series> curves;
  for (const StalenessRun& run : report.runs) {
    const std::string seen =
        run.asynchronous ? fmt::format("{:>14.2f} {:>5.0f}", run.mean, run.greatest) : fmt::format("{:>14} {:>5}", "-", "-");
    text += fmt::format("{:<23} {}   {:>15.4f}   {:>+9.2f}%   {:>10}\n", run.name(), seen, run.final_loss(),
                        report.difference(run), format_si(run.tokens_per_second));
    curves.push_back(curve(run));
  }
  text +=
      "Staleness: updates of other workers between a worker's pull and its own update. Bound: steps that a worker may be ahead\n"
      "of the slowest. Difference: of the validation loss, to the first mode without staleness.\n";
  return text + "\n" + plot("validation loss", "step", curves) + "\n";
}

Json to_json(const StalenessReport& report) {
  const auto numbers = [](const std::vector<double>& values) {
    Json::Array array;
    for (const double value : values) array.emplace_back(value);
    return array;
  };
  Json::Array runs;
  for (const StalenessRun& run : report.runs) {
    Json entry;
    entry.set("mode", run.mode);
    entry.set("bound", run.bound ? Json(*run.bound) : Json());
    entry.set("staleness_mean", run.asynchronous ? Json(run.mean) : Json());
    entry.set("staleness_max", run.asynchronous ? Json(run.greatest) : Json());
    entry.set("val_loss", run.final_loss());
    entry.set("difference_percent", report.difference(run));
    entry.set("tokens_per_s", run.tokens_per_second);
    entry.set("steps", numbers(run.validation.x));
    entry.set("val_losses", numbers(run.validation.y));
    runs.push_back(std::move(entry));
  }
  Json json;
  json.set("workers", report.workers);
  json.set("servers", report.servers);
  json.set("steps", report.steps);
  json.set("tokens", report.tokens);
  json.set("runs", std::move(runs));
  return json;
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
