// Sizes of steps that 64 bits do not count.

#include "arch/step_sizes.h"

#include <gtest/gtest.h>

#include "support/planned_model.h"

namespace lockstep::arch {
namespace {

TEST(StepSizes, AreToldWhereTheyCannotBeCounted) {
  const ModelConfig model = support::planned_model(8);
  EXPECT_TRUE(check(model, StepSizes{.samples = 1 << 10, .positions = 1 << 20, .microbatches = 512}).empty());
  constexpr std::int64_t most = 1 << 20;  // of each setting
  const std::vector<Problem> tokens = check(model, StepSizes{.samples = most, .positions = most, .microbatches = most});
  ASSERT_EQ(tokens.size(), 1U);
  EXPECT_EQ(tokens[0].message,
            "1048576 micro-batches of 1048576 x 1048576 tokens are 1.2e+18 tokens of a step and rank: at most 1e+12");
  const std::vector<Problem> bytes = check(model, StepSizes{.samples = most / 2, .positions = most});
  ASSERT_EQ(bytes.size(), 1U);
  EXPECT_NE(bytes[0].message.find("524288 x 1048576 tokens of this model have activations of about "), std::string::npos);
  EXPECT_TRUE(check(model, StepSizes{.samples = most / 2, .positions = most / 1024}).empty());
  EXPECT_FALSE(
      check(support::planned_model(64), StepSizes{.samples = most / 2, .positions = 1024, .microbatches = 1000, .kept = 1000})
          .empty());
}

}  // namespace
}  // namespace lockstep::arch
