// Runs of verify that do not come to their end: nothing is known of what they promise.

#include <gtest/gtest.h>

#include "lab/verify_trials.h"

namespace lockstep::lab {
namespace {

LayoutReport report_with(const Fault& fault) { return reports_of(small_model(), {"dp=2"}, with_fault(fault)).back(); }

void expect_says(const LayoutReport& report, const std::string& part) {
  EXPECT_NE(report.failure.reason.find(part), std::string::npos) << report.failure.reason;
}

TEST(Verify, AnErrorIsNoBrokenPromise) {
  const LayoutReport report = report_with([](const comm::Operation&, int number, comm::Communicator&) {
    if (number == 5) throw SystemError("the cable is out");
    return std::optional<comm::Request>();
  });
  EXPECT_EQ(report.verdict, Verdict::error);
  EXPECT_TRUE(report.wrong.empty());
  expect_says(report, "the cable is out");
  EXPECT_THROW(std::rethrow_exception(report.failure.thrown), SystemError);
}

TEST(Verify, ADifferenceThatWasFoundBeforeAnErrorIsWrong) {
  int sums = 0;
  const LayoutReport report = report_with([sums](const comm::Operation& operation, int, comm::Communicator&) mutable {
    const bool bucket =
        operation.kind == comm::Collective::all_reduce && operation.dtype == DType::f32 && operation.count > 20000;
    if (bucket && sums++ > 4) throw SystemError("the cable is out");  // in the second step
    return bucket ? std::optional<comm::Request>(std::in_place) : std::nullopt;
  });
  EXPECT_EQ(report.verdict, Verdict::wrong);
  ASSERT_FALSE(report.wrong.empty());
  EXPECT_NE(report.wrong.front().find("step 0"), std::string::npos) << report.wrong.front();
  expect_says(report, "the cable is out");
}

TEST(Verify, WhatCannotBeComparedIsAnErrorOfEachLayout) {
  VerifyModel model = small_model();
  model.positions = model.config.block_size + 1;  // which no run takes
  const std::vector<LayoutReport> reports = reports_of(model, {"dp=2,zero=1", "dp=1"});
  EXPECT_EQ(reports.size(), 3U);
  for (const LayoutReport& report : reports) {
    EXPECT_EQ(report.verdict, Verdict::error) << report.layout;
    EXPECT_TRUE(report.wrong.empty());
    expect_says(report, "of " + report.against + ", which it is compared with: ");
  }
}

}  // namespace
}  // namespace lockstep::lab
