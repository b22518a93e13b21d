#include "app/folder/run_name.h"

#include <fmt/format.h>

#include <array>
#include <ctime>
#include <random>
#include <string_view>

#include "base/rng.h"

namespace lockstep::app {
namespace {

constexpr std::array<std::string_view, 64> adjectives{
    "amber",   "bold",    "brave",  "breezy", "bright", "brisk",   "calm",   "clear",  "clever", "cosmic", "crisp",
    "curious", "dapper",  "daring", "deft",   "eager",  "earnest", "fair",   "fancy",  "fleet",  "fresh",  "frosty",
    "gentle",  "glad",    "golden", "grand",  "happy",  "hardy",   "honest", "humble", "icy",    "jolly",  "keen",
    "kind",    "light",   "lively", "lucky",  "lunar",  "mellow",  "merry",  "mighty", "misty",  "neat",   "noble",
    "patient", "playful", "proud",  "quick",  "quiet",  "rapid",   "ready",  "royal",  "rustic", "serene", "silver",
    "smooth",  "snowy",   "solar",  "steady", "sunny",  "swift",   "vivid",  "warm",   "wise"};

constexpr std::array<std::string_view, 64> nouns{
    "acorn", "aspen",  "badger",  "beacon", "birch", "bison",  "breeze",  "brook",  "canyon",  "cedar", "cliff",
    "cloud", "comet",  "coral",   "crane",  "creek", "dawn",   "delta",   "dune",   "eagle",   "ember", "falcon",
    "fern",  "field",  "fjord",   "forest", "fox",   "galaxy", "glacier", "grove",  "harbor",  "hare",  "heron",
    "hill",  "island", "jay",     "lagoon", "lake",  "lark",   "maple",   "marsh",  "meadow",  "moon",  "moss",
    "oak",   "ocean",  "orchid",  "otter",  "owl",   "pebble", "pine",    "pond",   "prairie", "rain",  "reef",
    "river", "robin",  "sparrow", "spring", "stone", "summit", "thicket", "valley", "willow"};

}  // namespace

std::string make_run_name(std::uint64_t seed, std::chrono::nanoseconds time) {
  const CounterRng rng(seed, "run.name");
  const auto now = static_cast<std::uint64_t>(time.count());
  const auto pick = [&](const auto& words, std::uint64_t which) {
    return words[static_cast<std::size_t>(rng.below(words.size(), which, now))];
  };
  return fmt::format("{}-{}-{}", pick(adjectives, 0), pick(nouns, 1), 1 + rng.below(999, 2, now));
}

std::string run_name_from_time() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  localtime_r(&now, &parts);
  std::array<char, 32> text{};
  std::strftime(text.data(), text.size(), "%Y-%m-%d-%H%M%S", &parts);
  return fmt::format("{}-{:08x}", text.data(), std::random_device()());
}

}  // namespace lockstep::app
