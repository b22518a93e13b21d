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

// Without fused multiply-adds sums have other bits, and some text another token.
TEST(VerifyServing, ATextThatDiffersIsNamed) {
  if (ops::available_isas().front() == ops::Isa::baseline || ops::available_isas().back() != ops::Isa::baseline)
    GTEST_SKIP() << "this machine has one kind of sums";
  const std::vector<ServingReport> reports =
      verify_serving({verify_model("llama", DType::f32)},
                     {{"other sums", {.texts = 4, .pages = 40, .rows = 64}, 1, ops::Isa::baseline}}, [](const ServingReport&) {});
  ASSERT_EQ(reports.size(), 1U);
  EXPECT_GT(reports.front().different, 0);
  EXPECT_TRUE(reports.front().first.starts_with("text ")) << reports.front().first;
}

}  // namespace
}  // namespace lockstep::lab
