// Texts written side by side are those that each would be alone, on every instruction set of this machine.

#include "lab/verify/serving.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace lockstep::lab {
namespace {

TEST(VerifyServing, EveryWayWritesTheTextsThatAreWrittenAlone) {
  for (const auto& [name, type] :
       {std::pair{"gpt2", DType::f32}, std::pair{"gemma3", DType::bf16}, std::pair{"lora", DType::f32}}) {
    const std::vector<ServingReport> reports =
        verify_serving({verify_model(name, type)}, serving_cases(), [](const ServingReport&) {});
    ASSERT_EQ(reports.size(), serving_cases().size());
    for (const ServingReport& report : reports) {
      EXPECT_EQ(report.different, 0) << name << ", " << report.words << ": " << report.first;
      EXPECT_EQ(report.tokens, 12 * 3 + 11 * 66);
    }
    EXPECT_GT(reports.front().saved, 0) << "one at a time, a prompt's beginning is known";
  }
}

TEST(VerifyServing, TheFirstTextThatDiffersIsNamed) {
  ServingReport report;
  compare(report, {{1, 2, 3}, {1, 2, 4}, {5}}, {{1, 2, 3}, {1, 2, 3}, {6}});
  EXPECT_EQ(report.texts, 3);
  EXPECT_EQ(report.tokens, 7);
  EXPECT_EQ(report.different, 2);
  EXPECT_EQ(report.first, "text 1 from its token 2 on");
}

}  // namespace
}  // namespace lockstep::lab
