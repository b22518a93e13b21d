#include "train/late/late_ranks.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>
#include <utility>

#include "base/error.h"

namespace lockstep::train {
namespace {

constexpr double least_excess = 0.125, least_seconds = 1e-3;
constexpr double deviations = 3.5, first_noise = 0.04;
constexpr std::size_t least_past = 8;  ///< windows, before a rank's own past says what is expected

template <std::size_t n>
double mean(const std::array<double, n>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(n);
}

}  // namespace

double LateRanks::Past::median() const {
  if (count() == 0) return 0;
  std::array<double, most> sorted = values_;
  const auto middle = sorted.begin() + static_cast<std::ptrdiff_t>(count() / 2);
  std::nth_element(sorted.begin(), middle, sorted.begin() + static_cast<std::ptrdiff_t>(count()));
  return *middle;
}

double LateRanks::Group::others(double seconds) const {
  const std::size_t middle = (sorted.size() - 2) / 2;
  return seconds <= sorted[middle] ? sorted[middle + 1] : sorted[middle];
}

LateRanks::LateRanks(const std::vector<int>& kinds) : groups_(1), ranks_(kinds.size()) {
  ensure(kinds.size() > 1, "a rank is late where there are others");
  groups_[0] = {.ranks = std::vector<int>(kinds.size()), .sorted = {}, .same_work = false};
  std::iota(groups_[0].ranks.begin(), groups_[0].ranks.end(), 0);
  for (std::size_t r = 0; r < kinds.size(); ++r) {
    if (ranks_[r].group > 0 || std::ranges::count(kinds, kinds[r]) == 1) continue;
    Group group;
    for (std::size_t other = r; other < kinds.size(); ++other) {
      if (kinds[other] != kinds[r]) continue;
      ranks_[other].group = groups_.size();
      group.ranks.push_back(static_cast<int>(other));
    }
    groups_.push_back(std::move(group));
  }
  for (Rank& rank : ranks_) {
    for (std::size_t i = 0; i < Past::most; ++i) rank.noise.add(first_noise);
  }
  for (Group& group : groups_) group.sorted.resize(group.ranks.size());
  changes_.reserve(kinds.size());
}

std::span<const LateChange> LateRanks::add(std::span<const double> seconds) {
  changes_.clear();
  if (windows_++ == 0) return changes_;
  for (Group& group : groups_) {
    std::ranges::transform(group.ranks, group.sorted.begin(), [&](int r) { return seconds[static_cast<std::size_t>(r)]; });
    std::ranges::sort(group.sorted);
  }
  for (std::size_t r = 0; r < ranks_.size(); ++r) judge(static_cast<int>(r), seconds[r]);
  return changes_;
}

void LateRanks::judge(int number, double seconds) {
  Rank& rank = ranks_[static_cast<std::size_t>(number)];
  const Group& group = groups_[rank.group];
  const double others = group.others(seconds), ratio = others > 0 && seconds > 0 ? seconds / others : 1;
  const double usual = group.same_work ? 1 : rank.ratios.median();
  const bool known = group.same_work || rank.ratios.count() >= least_past;
  const double factor = known ? ratio / usual : 1, lost = seconds - seconds / factor;
  rank.lost[windows_ % windows_in_a_row] = lost;
  rank.factors[windows_ % windows_in_a_row] = factor;
  constexpr double deviation = 1.4826 / std::numbers::sqrt2;  // of one value, by the median of what two differ by
  const double limit = std::max(least_excess, deviations * deviation * rank.noise.median());
  const bool late = rank.late ? factor - 1 > limit / 2 : factor - 1 > limit && lost > least_seconds;
  rank.turns = late == rank.late ? 0 : rank.turns + 1;
  if (rank.turns == windows_in_a_row) {
    rank.late = late;
    rank.turns = 0;
    changes_.push_back({tell(number), late});
  }
  if (rank.late) return;  // how a late rank works is not usual
  rank.ratios.add(ratio);
  if (rank.last_ratio > 0) rank.noise.add(std::abs(ratio / rank.last_ratio - 1));
  rank.last_ratio = ratio;
}

LateRank LateRanks::tell(int number) const {
  const Rank& rank = ranks_[static_cast<std::size_t>(number)];
  return {.rank = number,
          .seconds = std::max(0.0, mean(rank.lost)),
          .factor = mean(rank.factors),
          .by_peers = groups_[rank.group].same_work};
}

std::optional<LateRank> LateRanks::worst() const {
  std::optional<LateRank> worst;
  for (std::size_t r = 0; r < ranks_.size(); ++r) {
    if (!ranks_[r].late) continue;
    const LateRank one = tell(static_cast<int>(r));
    if (!worst || one.seconds > worst->seconds) worst = one;
  }
  return worst;
}

}  // namespace lockstep::train
