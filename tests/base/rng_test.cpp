#include "base/rng.h"

#include <gtest/gtest.h>

#include <set>

#include "base/error.h"

namespace lockstep {
namespace {

/// The seed whose splitmix64 is `target`: the mixer run backwards.
std::uint64_t unmix(std::uint64_t target) {
  const auto unshift = [](std::uint64_t x, int by) {
    std::uint64_t y = x;
    for (int shift = by; shift < 64; shift += by) y = x ^ (y >> by);
    return y;
  };
  const auto inverse = [](std::uint64_t odd) {
    std::uint64_t x = odd;
    for (int i = 0; i < 6; ++i) x *= 2 - odd * x;
    return x;
  };
  std::uint64_t x = unshift(target, 31) * inverse(0x94D049BB133111EBU);
  x = unshift(x, 27) * inverse(0xBF58476D1CE4E5B9U);
  return unshift(x, 30) - 0x9E3779B97F4A7C15U;
}

constexpr std::uint64_t fnv_of_nothing = 0xCBF29CE484222325U;

using Words = std::array<std::uint32_t, 4>;

TEST(CounterRandom, KeyIsSplitmixOfTheSeedXorFnvOfTheName) {
  // splitmix64's first output for state 0 and FNV-1a of "a", both from their authors' tables.
  const CounterRng nameless(0, ""), named(0, "a");
  const auto whole = [](const CounterRng& rng) { return rng.key()[0] | std::uint64_t{rng.key()[1]} << 32; };
  EXPECT_EQ(whole(nameless), 0xE220A8397B1DCDAFU ^ fnv_of_nothing);
  EXPECT_EQ(whole(named), 0xE220A8397B1DCDAFU ^ 0xAF63DC4C8601EC8CU);
}

TEST(CounterRandom, PhiloxKnownAnswers) {
  // The three vectors of philox4x32 with 10 rounds in Random123's kat_vectors.
  const CounterRng zero(unmix(fnv_of_nothing), "");
  ASSERT_EQ(zero.key(), (std::array<std::uint32_t, 2>{0, 0}));
  EXPECT_EQ(zero.block(0, 0), (Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  const CounterRng ones(unmix(~fnv_of_nothing), "");
  EXPECT_EQ(ones.block(~0ULL, ~0ULL), (Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  const CounterRng pi(unmix(0x299f31d0a4093822U ^ fnv_of_nothing), "");
  EXPECT_EQ(pi.block(0x85a308d3243f6a88U, 0x0370734413198a2eU), (Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(CounterRandom, WordsAreCutFromBlocks) {
  const CounterRng rng(1337, "dropout");
  for (std::uint64_t i = 0; i < 16; ++i) EXPECT_EQ(rng.word(i, 5), rng.block(i / 4, 5)[i % 4]);
  const Words block = rng.block(7, 2);
  EXPECT_EQ(rng.word64(7, 2), block[0] | std::uint64_t{block[1]} << 32);
  EXPECT_EQ(rng.uniform(7, 2), static_cast<double>(rng.word64(7, 2) >> 11) / 9007199254740992.0);
}

TEST(CounterRandom, SeedNameIndexAndHighWordAllMatter) {
  const std::set<std::uint64_t> drawn{CounterRng(1, "a").word64(0), CounterRng(2, "a").word64(0), CounterRng(1, "b").word64(0),
                                      CounterRng(1, "a").word64(1), CounterRng(1, "a").word64(0, 1)};
  EXPECT_EQ(drawn.size(), 5U);
}

TEST(CounterRandom, UniformAndBelowFillTheirRange) {
  const CounterRng rng(42, "range");
  double sum = 0;
  std::array<int, 5> hits{};
  constexpr int draws = 10000;
  for (std::uint64_t i = 0; i < draws; ++i) {
    const double u = rng.uniform(i);
    ASSERT_GE(u, 0);
    ASSERT_LT(u, 1);
    sum += u;
    ++hits.at(rng.below(5, i));
  }
  EXPECT_NEAR(sum / draws, 0.5, 0.02);
  for (const int count : hits) EXPECT_NEAR(count, draws / 5, 200);
  EXPECT_EQ(rng.below(1, 9), 0U);
  EXPECT_THROW(rng.below(0, 9), BrokenRule);
}

}  // namespace
}  // namespace lockstep
