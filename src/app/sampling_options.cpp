#include "app/sampling_options.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <limits>

#include "app/published/published_files.h"

namespace lockstep::app {
namespace {

/// What the help says of an option that a model's publisher may have a default for.
template <class Value>
std::string usual(Value value) {
  return fmt::format(" [{}, unless generation_config.json has another]", value);
}

}  // namespace

void SamplingOptions::declare(CommandLine& line, const std::string& seed_meaning) {
  const train::SampleOptions standard;
  line.option("--temperature", temperature, "T",
              fmt::format("0 takes the likeliest token every time{}", usual(standard.temperature)));
  line.option("--top-k", top_k, "K", fmt::format("draw from the K likeliest tokens; 0: from all{}", usual(standard.top_k)));
  line.option("--top-p", top_p, "P",
              fmt::format("draw from the likeliest tokens with this probability together{}", usual(standard.top_p)));
  line.option("--seed", seed, "N", seed_meaning, std::numeric_limits<std::int64_t>::max());
}

void SamplingOptions::check(std::vector<Problem>& problems) const {
  const auto require = [&](bool holds, std::string message, std::string remedy) {
    if (!holds) problems.push_back({std::move(message), std::move(remedy)});
  };
  const double t = temperature.value_or(0), p = top_p.value_or(1);
  require(t >= 0 && std::isfinite(t), fmt::format("--temperature {}: must be a number of at least 0", t), "--temperature 0.8");
  require(top_k.value_or(0) >= 0, fmt::format("--top-k {}: must not be negative", top_k.value_or(0)), "--top-k 16");
  require(p > 0 && p <= 1, fmt::format("--top-p {}: must be in (0, 1]", p), "--top-p 1");
  require(seed >= 0, fmt::format("--seed {}: must not be negative", seed), "--seed 1337");
}

train::SampleOptions SamplingOptions::sampling(const TextHabits& habits, Log& log) const {
  std::vector<std::string> taken;
  train::SampleOptions sampling{.seed = static_cast<std::uint64_t>(seed), .never = habits.never};
  const auto choose = [&](auto& target, const auto& said, const auto& theirs, std::string_view name) {
    if (!said && theirs) taken.push_back(fmt::format("--{} {}", name, *theirs));
    target = said.value_or(theirs.value_or(target));
  };
  choose(sampling.temperature, temperature, habits.generation.temperature, "temperature");
  if (sampling.temperature > 0) {
    choose(sampling.top_k, top_k, habits.generation.top_k, "top-k");
    choose(sampling.top_p, top_p, habits.generation.top_p, "top-p");
  }
  if (!taken.empty())
    log.warning(
        fmt::format("{} (else config.json) says {}: taken, for the command does not", generation_file, fmt::join(taken, " ")));
  return sampling;
}

}  // namespace lockstep::app
