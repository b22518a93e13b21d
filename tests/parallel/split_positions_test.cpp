// Which positions of a sample each rank of context parallelism has.

#include "parallel/context/split_positions.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

#include "support/documents.h"

namespace lockstep::parallel {
namespace {

using Parts = std::vector<ops::Positions>;

Parts zigzag(int ranks, std::int64_t positions) {
  Parts parts(static_cast<std::size_t>(ranks));
  split_all_positions(parts, positions);
  return parts;
}

Parts dealt(int ranks, const Tensor& starts) {
  Parts parts(static_cast<std::size_t>(ranks));
  DocumentSplit(ranks).split(parts, starts.columns(), elements<const std::int32_t>(starts));
  return parts;
}

std::vector<std::int64_t> rows_of(const ops::Positions& part) {
  std::vector<std::int64_t> rows;
  for (std::int64_t row = 0; row < part.count(); ++row) rows.push_back(part.at(row));
  return rows;
}

bool alike(const Parts& a, const Parts& b) { return std::ranges::equal(a, b, {}, rows_of, rows_of); }

/// Keys that the queries of positions [first, first + count) of all samples see.
std::int64_t keys_of(const Tensor& starts, std::int64_t first, std::int64_t count) {
  std::int64_t keys = 0;
  for (std::int64_t sample = 0; sample < starts.rows(); ++sample) {
    const std::int32_t* const of = ops::starts_from(starts, sample, 0);
    for (std::int64_t i = first; i < first + count; ++i) keys += i + 1 - of[i];
  }
  return keys;
}

/// The keys that the rank with most of them sees.
std::int64_t most_keys(const Tensor& starts, const Parts& parts) {
  std::int64_t most = 0;
  for (const ops::Positions& part : parts) {
    std::int64_t keys = 0;
    for (const ops::PositionRun& run : part.runs()) keys += keys_of(starts, run.first, run.count);
    most = std::max(most, keys);
  }
  return most;
}

/// The least that any way to deal parts out in pairs leaves to the rank with most.
std::int64_t least_possible(const std::vector<std::int64_t>& parts) {
  if (parts.empty()) return 0;
  std::int64_t least = std::numeric_limits<std::int64_t>::max();
  for (std::size_t other = 1; other < parts.size(); ++other) {
    std::vector<std::int64_t> left = parts;
    left.erase(left.begin() + static_cast<std::ptrdiff_t>(other));
    left.erase(left.begin());
    least = std::min(least, std::max(parts[0] + parts[other], least_possible(left)));
  }
  return least;
}

std::vector<std::int64_t> random_lengths(std::mt19937& random, std::int64_t positions) {
  std::vector<std::int64_t> lengths;
  for (std::int64_t left = positions; left > 0; left -= lengths.back())
    lengths.push_back(std::min<std::int64_t>(left, 1 + static_cast<std::int64_t>(random() % 40)));
  return lengths;
}

TEST(SplitPositions, SamplesOfOneDocumentStayInZigzag) {
  for (int ranks = 1; ranks <= 8; ++ranks) {
    support::Documents one({240 * ranks}, 2);
    EXPECT_TRUE(alike(dealt(ranks, one.starts()), zigzag(ranks, 240 * ranks))) << ranks;
  }
}

TEST(SplitPositions, PartsOfDifferentLengthsStayInZigzag) {
  support::Documents documents({50, 1, 18}, 1);
  EXPECT_TRUE(alike(dealt(3, documents.starts()), zigzag(3, 69)));
}

TEST(SplitPositions, EveryPositionIsDealtToOneRankAndAsManyToEach) {
  std::mt19937 random(1);
  for (int ranks = 1; ranks <= 6; ++ranks) {
    support::Documents documents(random_lengths(random, 120), 3);
    std::vector<std::int64_t> all;
    for (const ops::Positions& part : dealt(ranks, documents.starts())) {
      EXPECT_EQ(part.count(), 120 / ranks);
      const std::vector<std::int64_t> rows = rows_of(part);
      all.insert(all.end(), rows.begin(), rows.end());
    }
    std::ranges::sort(all);
    std::vector<std::int64_t> expected(120);
    std::iota(expected.begin(), expected.end(), 0);
    EXPECT_EQ(all, expected);
  }
}

TEST(SplitPositions, NoOtherPairsLeaveLessToTheRankWithMost) {
  std::mt19937 random(2);
  int better = 0;
  for (int trial = 0; trial < 60; ++trial) {
    const int ranks = 2 + trial % 3;
    support::Documents documents(random_lengths(random, 96), 1 + trial % 2);
    const Tensor starts = documents.starts();
    std::vector<std::int64_t> parts;
    for (int p = 0; p < 2 * ranks; ++p) parts.push_back(keys_of(starts, p * 96 / (2 * ranks), 96 / (2 * ranks)));
    const std::int64_t most = most_keys(starts, dealt(ranks, starts));
    EXPECT_EQ(most, least_possible(parts));
    better += most < most_keys(starts, zigzag(ranks, 96));
  }
  EXPECT_GT(better, 30) << "zigzag is seldom the best for short documents";
}

}  // namespace
}  // namespace lockstep::parallel
