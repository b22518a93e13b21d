// The table of nine cases, and the rule that holds in all of them.

#include "planner/formulas/advice.h"

#include <gtest/gtest.h>

namespace lockstep::planner {
namespace {

constexpr double gb = 1e9;

/// A model of `parameters` and a largest layer of `layer` bytes on devices of 80 GB.
AdviceQuestion asked(double parameters, double layer, std::int64_t devices, std::int64_t nodes, bool inside = true,
                     bool between = true) {
  return {.parameters = parameters,
          .largest_layer = layer,
          .activations = 8 * gb,
          .device_memory = 80 * gb,
          .devices = devices,
          .nodes = nodes,
          .fast_inside = inside,
          .fast_between = between};
}

struct Row {
  AdviceQuestion question;
  std::string setting, condition, answer;
};

TEST(Advice, HasTheNineCases) {
  const double small = 4e9, large = 20e9, huge = 200e9, thin = 1 * gb, thick = 41 * gb;
  const std::vector<Row> rows{
      {asked(small, thin, 1, 1), "Single GPU", "model fits", "Normal use"},
      {asked(large, thin, 1, 1), "Single GPU", "model does NOT fit", "ZeRO + Offload CPU (or, optionally, NVMe)"},
      {asked(large, thick, 1, 1), "Single GPU", "largest layer does NOT fit", "ZeRO + Enable Memory Centric Tiling (MCT)"},
      {asked(small, thin, 8, 1), "Single node / multi-GPU", "model fits onto a single GPU", "DDP; ZeRO"},
      {asked(large, thin, 8, 1), "Single node / multi-GPU", "model does NOT fit onto a single GPU",
       "1. PP 2. ZeRO 3. TP. With sufficiently fast connectivity between nodes, these three strategies should be comparable. "
       "Otherwise, PP > ZeRO ≃ TP."},
      {asked(large, thick, 8, 1), "Single node / multi-GPU", "largest layer does NOT fit",
       "if not ZeRO: must use TP; with ZeRO: MCT"},
      {asked(large, thin, 8, 4), "Multi-node", "model fits a single node",
       "first try ZeRO with multiple replicas (hpZ / HYBRID_SHARD): ZeRO inside node, DDP across"},
      {asked(huge, thin, 8, 4), "Multi-node", "fast inter-node",
       "ZeRO (virtually NO modifications), or PP+ZeRO+TP+DP (less communication, at the cost of MAJOR modifications)"},
      {asked(huge, thin, 8, 4, true, false), "Multi-node", "slow inter-node and still low on GPU memory",
       "DP + PP + TP + ZeRO-1"}};
  for (const Row& row : rows) {
    const Advice advice = advise(row.question);
    EXPECT_EQ(advice.setting, row.setting) << row.condition;
    EXPECT_EQ(advice.condition, row.condition);
    EXPECT_EQ(advice.answer, row.answer);
    ASSERT_FALSE(advice.besides.empty());
    EXPECT_NE(advice.besides.front().find("TP <= GPUS_PER_NODE"), std::string::npos);
    EXPECT_NE(advice.besides.front().find("parallel.tp <= " + std::to_string(row.question.devices)), std::string::npos);
  }
}

TEST(Advice, TheReasonHasTheFigures) {
  EXPECT_EQ(advise(asked(4e9, gb, 1, 1)).reason,
            "18 B x 4.00 G parameters + 7.45 GiB of activations = 74.51 GiB against 74.51 GiB of a device");
  EXPECT_EQ(advise(asked(4.001e9, gb, 1, 1)).condition, "model does NOT fit");
  EXPECT_EQ(advise(asked(4e9, 40 * gb, 1, 1)).condition, "model fits");
  EXPECT_EQ(advise(asked(4e9, 40.1 * gb, 1, 1)).reason, "2 x 37.35 GiB of the largest layer against 74.51 GiB of a device");
}

TEST(Advice, WhatSharesANodeDependsOnItsConnection) {
  const auto second = [](bool fast) { return advise(asked(20e9, gb, 8, 1, fast)).besides.at(1); };
  EXPECT_EQ(second(true), "the connection is fast: the three should be comparable");
  EXPECT_EQ(second(false), "the connection is slow: PP > ZeRO ≃ TP");
}

TEST(Advice, ALayerThatIsTooLargeIsNamedOnSeveralNodesToo) {
  const Advice advice = advise(asked(200e9, 41 * gb, 8, 4));
  ASSERT_EQ(advice.besides.size(), 2U);
  EXPECT_NE(advice.besides[1].find("must use TP"), std::string::npos);
}

}  // namespace
}  // namespace lockstep::planner
