#include "data/sampler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <set>
#include <vector>

#include "data/support.h"

namespace lockstep::data {
namespace {

SamplerOptions options(Order order, std::int64_t tokens, std::int64_t positions, std::int64_t global_batch = 1) {
  return {.order = order,
          .seed = 1337,
          .name = training_sequence(order),
          .tokens = tokens,
          .positions = positions,
          .global_batch = global_batch};
}

std::vector<std::int64_t> draw(const Sampler& sampler, std::int64_t first, std::int64_t count) {
  std::vector<std::int64_t> offsets;
  for (std::int64_t n = first; n < first + count; ++n) offsets.push_back(sampler.offset(static_cast<std::uint64_t>(n)));
  return offsets;
}

TEST(Sampler, RandomIsTheCounterGeneratorsDraw) {
  const Sampler sampler(options(Order::random, 1003854, 64));
  const CounterRng rng(1337, "data.random");
  for (std::uint64_t n : {0ULL, 1ULL, 77ULL, 1ULL << 40}) {
    EXPECT_EQ(sampler.offset(n), static_cast<std::int64_t>(rng.below(1003854 - 64, n)));
  }
}

TEST(Sampler, RandomDrawsAreDistinctAndCoverTheText) {
  const Sampler sampler(options(Order::random, 1'000'000'000, 64));
  const std::vector<std::int64_t> offsets = draw(sampler, 0, 4000);
  EXPECT_GE(std::set<std::int64_t>(offsets.begin(), offsets.end()).size(), 3998U);
  EXPECT_LT(*std::min_element(offsets.begin(), offsets.end()), 10'000'000);
  EXPECT_GT(*std::max_element(offsets.begin(), offsets.end()), 990'000'000);
}

TEST(Sampler, RandomReachesBothEndsAndNoFurther) {
  const Sampler sampler(options(Order::random, 10, 8));  // two windows: 0 and 1
  const std::vector<std::int64_t> offsets = draw(sampler, 0, 100);
  EXPECT_EQ(std::set<std::int64_t>(offsets.begin(), offsets.end()), (std::set<std::int64_t>{0, 1}));
}

TEST(Sampler, AnEpochVisitsEveryWindowOnce) {
  for (std::int64_t windows : {1, 2, 3, 4, 5, 16, 17, 99, 100, 1000, 12345}) {
    const Sampler sampler(options(Order::partition, windows * 8 + 1, 8));
    ASSERT_EQ(sampler.windows(), windows);
    for (std::int64_t epoch = 0; epoch < 2; ++epoch) {
      std::vector<std::int64_t> offsets = draw(sampler, epoch * windows, windows);
      std::sort(offsets.begin(), offsets.end());
      for (std::int64_t i = 0; i < windows; ++i) ASSERT_EQ(offsets[static_cast<std::size_t>(i)], i * 8) << windows;
    }
  }
}

TEST(Sampler, WindowsThatBelongTogetherStayNeighboursInEveryEpoch) {
  SamplerOptions pairs = options(Order::partition, 34 * 8 + 1, 8, 6);
  pairs.together = 2;
  auto references = std::make_shared<std::vector<double>>(34);
  std::iota(references->begin(), references->end(), -100.0);
  pairs.references = references;
  for (const bool pad : {false, true}) {
    pairs.pad_epochs = pad;
    const Sampler sampler(pairs);
    EXPECT_TRUE(sampler.grouped());
    const std::int64_t samples = pad ? 36 : 30;
    for (std::int64_t epoch = 0; epoch < 3; ++epoch) {
      const std::vector<std::int64_t> offsets = draw(sampler, epoch * samples, samples);
      for (std::size_t i = 0; i < offsets.size(); i += 2) {
        EXPECT_EQ(offsets[i] % 16, 0) << i;
        EXPECT_EQ(offsets[i + 1], offsets[i] + 8) << i;
      }
      EXPECT_EQ(std::set<std::int64_t>(offsets.begin(), offsets.end()).size(), pad ? 34U : 30U);
    }
    const Window window = sampler.window(5);
    EXPECT_EQ(window.reference, -100.0 + static_cast<double>(window.begin / 8));
  }
  EXPECT_NE(draw(Sampler(pairs), 0, 36), draw(Sampler(pairs), 36, 36));
}

TEST(Sampler, EpochsAreWholeBatchesAndDisjoint) {
  const Sampler sampler(options(Order::partition, 103 * 8 + 1, 8, 10));
  EXPECT_EQ(sampler.windows(), 103);
  EXPECT_EQ(sampler.steps_per_epoch(), 10);
  for (std::int64_t epoch = 0; epoch < 3; ++epoch) {
    const std::vector<std::int64_t> offsets = draw(sampler, epoch * 100, 100);
    EXPECT_EQ(std::set<std::int64_t>(offsets.begin(), offsets.end()).size(), 100U);
  }
}

TEST(Sampler, APaddedEpochVisitsAllWindowsAndItsFirstOnesAgain) {
  for (const std::int64_t batch : {10, 103, 206, 250}) {
    SamplerOptions padded = options(Order::partition, 103 * 8 + 1, 8, batch);
    padded.pad_epochs = true;
    const Sampler sampler(padded);
    const std::int64_t steps = (103 + batch - 1) / batch, samples = steps * batch;
    EXPECT_EQ(sampler.steps_per_epoch(), steps);
    for (std::int64_t epoch = 0; epoch < 2; ++epoch) {
      const std::vector<std::int64_t> offsets = draw(sampler, epoch * samples, samples);
      EXPECT_EQ(std::set<std::int64_t>(offsets.begin(), offsets.begin() + 103).size(), 103U);
      for (std::size_t i = 103; i < offsets.size(); ++i) EXPECT_EQ(offsets[i], offsets[i - 103]);
    }
  }
}

// Where ranks divide batches, each has as many windows, and together they have every one.
TEST(Sampler, RanksOfAPaddedEpochHaveEqualPartsOfAllWindows) {
  constexpr std::int64_t ranks = 4;
  SamplerOptions padded = options(Order::partition, 103 * 8 + 1, 8, ranks);
  padded.pad_epochs = true;
  const Sampler sampler(padded);
  std::vector<std::set<std::int64_t>> parts(ranks);
  for (std::int64_t sample = 0; sample < 104; ++sample)
    parts[static_cast<std::size_t>(sample % ranks)].insert(sampler.offset(static_cast<std::uint64_t>(sample)));
  std::set<std::int64_t> all;
  for (const std::set<std::int64_t>& part : parts) {
    EXPECT_EQ(part.size(), 26U);
    all.insert(part.begin(), part.end());
  }
  EXPECT_EQ(all.size(), 103U);
}

TEST(Sampler, EpochsAndSeedsHaveTheirOwnOrder) {
  SamplerOptions one = options(Order::partition, 1000 * 8 + 1, 8);
  SamplerOptions two = one;
  two.seed = 1338;
  const std::vector<std::int64_t> first = draw(Sampler(one), 0, 1000);
  const std::vector<std::int64_t> second = draw(Sampler(one), 1000, 1000);
  const std::vector<std::int64_t> other = draw(Sampler(two), 0, 1000);
  const auto same = [](const auto& a, const auto& b) {
    return std::inner_product(a.begin(), a.end(), b.begin(), 0, std::plus<>(), std::equal_to<>());
  };
  EXPECT_LT(same(first, second), 10);
  EXPECT_LT(same(first, other), 10);
  std::vector<std::int64_t> sorted = first;
  std::sort(sorted.begin(), sorted.end());
  EXPECT_LT(same(first, sorted), 10);
}

TEST(Sampler, WindowsCountAsTheStridedRange) {
  // Python: len(range(0, n - T, T))
  EXPECT_EQ(Sampler(options(Order::partition, 9, 8)).windows(), 1);
  EXPECT_EQ(Sampler(options(Order::partition, 16, 8)).windows(), 1);
  EXPECT_EQ(Sampler(options(Order::partition, 17, 8)).windows(), 2);
  EXPECT_EQ(Sampler(options(Order::partition, 1003854, 64)).windows(), 15685);
}

TEST(Sampler, SequentialReadsFromTheStart) {
  const Sampler sampler(options(Order::sequential, 33, 8));
  EXPECT_EQ(draw(sampler, 0, 4), (std::vector<std::int64_t>{0, 8, 16, 24}));
  EXPECT_THROW(sampler.offset(4), BrokenRule);
}

// Each target of a text counts in one window, whatever its length and the stride.
TEST(Sampler, SequentialWindowsCountEveryTargetOnce) {
  for (std::int64_t tokens = 2; tokens < 40; ++tokens) {
    for (std::int64_t positions = 1; positions < 12; ++positions) {
      for (std::int64_t stride = 1; stride <= positions; ++stride) {
        SamplerOptions asked = options(Order::sequential, tokens, positions);
        asked.stride = stride;
        const Sampler sampler(asked);
        std::int64_t next = 1;  // target
        for (std::int64_t n = 0; n < sampler.windows(); ++n) {
          const Window window = sampler.window(static_cast<std::uint64_t>(n));
          EXPECT_EQ(window.begin, n * stride);
          EXPECT_EQ(window.begin + window.known + 1, next);
          EXPECT_GT(window.length, window.known);
          EXPECT_LE(window.length, positions);
          next = window.begin + window.length + 1;
        }
        EXPECT_EQ(next, tokens);
      }
    }
  }
  EXPECT_NE(user_error([] { Sampler(options(Order::sequential, 1, 4)); }).find("has no target"), std::string::npos);
}

TEST(Sampler, RefusesATextShorterThanAWindow) {
  const std::string text = user_error([] { Sampler(options(Order::random, 64, 64)); });
  EXPECT_NE(text.find("64 tokens"), std::string::npos) << text;
  EXPECT_NE(text.find("65"), std::string::npos) << text;
  EXPECT_EQ(Sampler(options(Order::random, 65, 64)).offset(5), 0);
}

TEST(Sampler, RefusesAnEpochSmallerThanAStep) {
  const std::string text = user_error([] { Sampler(options(Order::partition, 8 * 8 + 1, 8, 9)); });
  EXPECT_NE(text.find("8 windows"), std::string::npos) << text;
  EXPECT_NE(text.find("9"), std::string::npos) << text;
}

}  // namespace
}  // namespace lockstep::data
