// `lockstep verify --device cuda` on the emulated GPU.

#include "lab/verify/verify.h"

#include <gtest/gtest.h>

#include "lab/layouts.h"

namespace lockstep::lab {
namespace {

std::vector<LayoutReport> reports_of(std::string_view name, DType type, const std::vector<std::string>& layouts) {
  VerifyOptions options{.models = {verify_model(name, type)}, .layouts = {}, .steps = 2, .device = DeviceKind::cuda};
  VerifyModel& model = options.models.front();
  model.config.layers = 2;
  model.config.ffn_width = 64;
  model.samples = 1;
  model.positions = 24;
  std::vector<Problem> problems;
  for (const std::string& layout : layouts) options.layouts.push_back(layout_from(layout, problems).value());
  return verify(options, [](const LayoutReport& report) {
    EXPECT_LE(report.verdict, Verdict::within_tolerance)
        << report.model << " " << report.layout << ": " << report.worst << " " << report.error << " " << report.failure.reason
        << (report.wrong.empty() ? "" : report.wrong.front());
  });
}

TEST(CudaVerify, OneRankHasTheProcessorsBits) {
  const std::vector<LayoutReport> reports = reports_of(
      "llama", DType::f32, {"dp=1,gas=1", "dp=1,gas=1,recompute=full", "dp=1,gas=2,offload=optimizer+params+activations"});
  EXPECT_EQ(reports.size(), 4U);  // without the offload, too
  for (const LayoutReport& report : reports) EXPECT_EQ(report.verdict, Verdict::bit_equal) << report.layout;
}

TEST(CudaVerify, RanksOfOneGpuExchange) {
  reports_of("gpt2", DType::f32, {"dp=2,gas=1,zero=3", "tp=2,gas=1,sequence", "pp=2,gas=2", "cp=2,gas=1"});
  reports_of("llama", DType::bf16, {"dp=2,gas=1,zero=1", "tp=2,gas=1"});
}

TEST(CudaVerify, ParameterServersAreOfTheProcessor) {
  std::vector<Problem> problems;
  const Layout served = layout_from("dp=2,ps=1", problems).value();
  VerifyOptions options{.models = {verify_model("llama", DType::f32)}, .layouts = {served}, .device = DeviceKind::cuda};
  problems = check(options);
  ASSERT_EQ(problems.size(), 1U);
  EXPECT_EQ(problems.front().remedy, "leave ps out, or --device cpu");
  options.as_possible = true;
  EXPECT_TRUE(verify(options, [](const LayoutReport&) {}).empty());
}

}  // namespace
}  // namespace lockstep::lab
