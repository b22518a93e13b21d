// Which token is drawn from a row of logits.

#include "train/sample.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <set>
#include <vector>

namespace lockstep::train {
namespace {

/// The tokens that are drawn at all.
std::set<std::int32_t> drawn(const std::vector<float>& logits, const SampleOptions& options) {
  TokenSampler sampler;
  std::set<std::int32_t> tokens;
  for (int i = 0; i < 1000; ++i) tokens.insert(sampler.draw(logits, options, i / 1000.0));
  return tokens;
}

const std::vector<float> logits = {0.5F, 2, -1, 1.5F, 2, 0};

TEST(TokenSampler, AtTemperatureZeroTakesTheFirstOfTheLikeliest) {
  EXPECT_EQ(drawn(logits, {.temperature = 0}), (std::set<std::int32_t>{1}));
}

TEST(TokenSampler, DrawsEveryTokenAsOftenAsItIsLikely) {
  TokenSampler sampler;
  std::vector<int> counts(logits.size());
  for (int i = 0; i < 10000; ++i)
    ++counts[static_cast<std::size_t>(sampler.draw(logits, {.temperature = 0.5, .top_k = 0}, i / 10000.0))];
  double sum = 0;
  for (const float logit : logits) sum += std::exp(logit / 0.5);
  for (std::size_t i = 0; i < logits.size(); ++i) EXPECT_NEAR(counts[i], 10000 * std::exp(logits[i] / 0.5) / sum, 2);
}

TEST(TokenSampler, TopKKeepsTiesAtTheLastOne) {
  EXPECT_EQ(drawn(logits, {.top_k = 1}), (std::set<std::int32_t>{1, 4}));
  EXPECT_EQ(drawn(logits, {.top_k = 2}), (std::set<std::int32_t>{1, 4}));
  EXPECT_EQ(drawn(logits, {.top_k = 3}), (std::set<std::int32_t>{1, 3, 4}));
  EXPECT_EQ(drawn(logits, {.top_k = 100}).size(), logits.size());
}

TEST(TokenSampler, TopPKeepsTheSmallestSetThatHasIt) {
  EXPECT_EQ(drawn(logits, {.temperature = 1, .top_k = 0, .top_p = 0.01}), (std::set<std::int32_t>{1}));
  EXPECT_EQ(drawn(logits, {.temperature = 1, .top_k = 0, .top_p = 0.7}), (std::set<std::int32_t>{1, 3, 4}));
}

TEST(TokenSampler, NeverDrawsWhatIsNoNumber) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(drawn({nan, 1, nan, 1}, {.top_k = 0}), (std::set<std::int32_t>{1, 3}));
  for (const std::int64_t top_k : {0, 1, 2}) EXPECT_EQ(drawn({nan, nan, nan}, {.top_k = top_k}), (std::set<std::int32_t>{0}));
}

}  // namespace
}  // namespace lockstep::train
