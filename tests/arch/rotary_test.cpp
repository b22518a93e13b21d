#include "arch/rotary.h"

#include <gtest/gtest.h>

#include <cmath>

namespace lockstep::arch {
namespace {

ModelConfig llama(std::int64_t head_size, double theta) {
  ModelConfig config;
  config.head_size = head_size;
  config.position = PositionKind::rope;
  config.rope.theta = theta;
  return config;
}

TEST(Rotary, FrequenciesAreARowOfPowers) {
  const std::vector<float> frequencies = rotary_frequencies(llama(128, 500000));
  ASSERT_EQ(frequencies.size(), 64U);
  EXPECT_EQ(frequencies[0], 1.0F);
  EXPECT_EQ(frequencies[32], static_cast<float>(1 / std::sqrt(500000.0)));
  for (std::size_t i = 0; i < 64; ++i) {
    EXPECT_FLOAT_EQ(frequencies[i], static_cast<float>(std::pow(500000.0, -static_cast<double>(i) / 64)));
  }
}

// Scaling of Llama 3.1: short waves stay, long ones are 8 times longer, and those between go over smoothly.
TEST(Rotary, Llama3StretchesLongWaves) {
  ModelConfig config = llama(128, 500000);
  const std::vector<float> plain = rotary_frequencies(config);
  config.rope.scaling = RopeScaling::llama3;
  const std::vector<float> scaled = rotary_frequencies(config);
  int stayed = 0, stretched = 0;
  for (std::size_t i = 0; i < plain.size(); ++i) {
    const double wave = 2 * M_PI / static_cast<double>(plain[i]);
    const float share = scaled[i] / plain[i];
    if (wave < 2048) {
      EXPECT_EQ(share, 1.0F);
      ++stayed;
    } else if (wave > 8192) {
      EXPECT_FLOAT_EQ(share, 0.125F);
      ++stretched;
    } else {
      const double kept = (8192 / wave - 1) / 3;
      EXPECT_NEAR(share, kept + (1 - kept) / 8, 1e-6);
    }
  }
  EXPECT_EQ(stayed, 29);
  EXPECT_EQ(stretched, 29);
}

// What transformers 5.24's ROPE_INIT_FUNCTIONS["yarn"] and ["linear"] give.
TEST(Rotary, YarnAndLinearAreThoseOfTransformers) {
  const auto expect = [](const ModelConfig& config, const std::vector<float>& wanted) {
    const std::vector<float> frequencies = rotary_frequencies(config);
    ASSERT_EQ(frequencies.size(), wanted.size());
    for (std::size_t i = 0; i < wanted.size(); ++i) EXPECT_NEAR(frequencies[i], wanted[i], 3e-7 * wanted[i]) << i;
  };
  ModelConfig config = llama(16, 10000);
  config.rope.scaling = RopeScaling::yarn;
  config.rope.factor = 4;
  config.rope.original_block_size = 1024;
  config.rope.high_freq_factor = 32;
  expect(config,
         {1.0F, 0.316227764F, 0.0812500045F, 0.0197642371F, 0.00437500002F, 0.000790569466F, 0.000250000012F, 7.90569466e-05F});
  config.rope.high_freq_factor = 8;
  config.rope.low_freq_factor = 2;
  expect(config,
         {1.0F, 0.316227764F, 0.100000001F, 0.0197642371F, 0.00249999994F, 0.000790569466F, 0.000250000012F, 7.90569466e-05F});
  EXPECT_NEAR(usual_attention_factor(4), 1.138629436111989, 1e-12);
  config = llama(8, 10000);
  config.rope.scaling = RopeScaling::linear;
  config.rope.factor = 3;
  expect(config, {0.333333343F, 0.0333333351F, 0.00333333318F, 0.000333333359F});
  config.rope.scaling = RopeScaling::dynamic;
  EXPECT_EQ(rotary_frequencies(config), rotary_frequencies(llama(8, 10000)));
}

TEST(Rotary, QueriesAndKeysMayGetLonger) {
  const std::vector<float> frequencies = rotary_frequencies(llama(8, 10000));
  std::vector<float> plain(8), longer(8);
  rotary_angles(plain, frequencies, 5);
  rotary_angles(longer, frequencies, 5, 1.25);
  for (std::size_t i = 0; i < 8; ++i) EXPECT_FLOAT_EQ(longer[i], 1.25F * plain[i]);
}

// The library's functions are right within an ulp of double; rounded to float they are the same but for ties.
TEST(Rotary, AnglesAreRoundedOnce) {
  const std::vector<float> frequencies = rotary_frequencies(llama(64, 10000));
  std::vector<float> angles(64);
  int other = 0;
  for (std::int64_t position = 0; position < 200000; position += position < 2000 ? 1 : 997) {
    rotary_angles(angles, frequencies, position);
    for (std::size_t i = 0; i < 32; ++i) {
      const double angle = static_cast<double>(position) * static_cast<double>(frequencies[i]);
      const auto cosine = static_cast<float>(std::cos(angle)), sine = static_cast<float>(std::sin(angle));
      other += angles[i] == cosine && angles[32 + i] == sine ? 0 : 1;
      ASSERT_NEAR(angles[i], cosine, 6e-8) << position << ", " << i;
      ASSERT_NEAR(angles[32 + i], sine, 6e-8) << position << ", " << i;
    }
  }
  EXPECT_LE(other, 2);
}

TEST(Rotary, BrokenRules) {
  EXPECT_THROW(rotary_frequencies(llama(33, 10000)), BrokenRule);
  std::vector<float> angles(3);
  const std::vector<float> frequencies(2);
  EXPECT_THROW(rotary_angles(angles, frequencies, 0), BrokenRule);
}

}  // namespace
}  // namespace lockstep::arch
