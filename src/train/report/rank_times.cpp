#include "train/report/rank_times.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <span>
#include <string_view>
#include <vector>

namespace lockstep::train {
namespace {

// Of the values of all ranks.
Spread spread_of(std::span<const double> values) {
  Spread spread{.mean = 0, .least = values[0], .greatest = values[0], .deviation = 0};
  const auto n = static_cast<double>(values.size());
  for (const double x : values) {
    spread.mean += x / n;
    spread.least = std::min(spread.least, x);
    spread.greatest = std::max(spread.greatest, x);
  }
  for (const double x : values) spread.deviation += (x - spread.mean) * (x - spread.mean) / n;
  spread.deviation = std::sqrt(spread.deviation);
  return spread;
}

}  // namespace

RankTimes gather_times(const Metrics& m, comm::Communicator& world) {
  if (world.size() == 1) return {};
  const PipelineSeconds list = m.pipeline.value_or(PipelineSeconds{});
  std::array<double, 7> times_of_all{m.dt, m.dtf, m.dtb, m.data_wait, m.exposed_seconds, list.all, list.waiting};
  const std::span mine = std::span(times_of_all).first(m.pipeline ? 7 : 5);
  const auto ranks = static_cast<std::size_t>(world.size());
  std::vector<double> all(ranks * mine.size()), one(ranks);
  const std::vector<std::int64_t> counts(ranks, std::ssize(mine));
  world.host().all_gather(view(std::span(all), Shape{std::ssize(all)}), view(mine, Shape{std::ssize(mine)}), counts).wait();
  RankTimes times;
  constexpr std::array<std::string_view, 7> names{"dt", "dtf", "dtb", "data_wait", "exposed", "pipeline", "waiting"};
  for (std::size_t i = 0; i < mine.size(); ++i) {
    for (std::size_t r = 0; r < ranks; ++r) one[r] = all[r * mine.size() + i];
    times.emplace_back(names[i], spread_of(one));
  }
  return times;
}

}  // namespace lockstep::train
