// A simulated step as a trace.

#include "planner/trace.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "support/planned_model.h"

namespace lockstep::planner {
namespace {

struct Step {
  Work work;
  Candidate candidate;
  SimulatedStep simulated;
};

Step piped_step() {
  const Work work(support::planned_model(8), 256, *find_machine("a100"));
  Candidate candidate;
  candidate.plan.pp = 4;
  candidate.plan.microbatches = 6;
  return {work, candidate, simulate_step(work, candidate)};
}

TEST(Trace, TakesAsLongAsThePlannerSays) {
  const Step step = piped_step();
  EXPECT_NEAR(step.simulated.seconds(), simulated_time(step.work, step.candidate).total(), 1e-9);
}

TEST(Trace, MemoryBeginsAndEndsAlikeAndPeaksAtWhatIsDeclared) {
  const Step step = piped_step();
  ASSERT_EQ(step.simulated.memory.size(), 4U);
  for (int rank = 0; rank < 4; ++rank) {
    const std::vector<MemoryPoint>& curve = step.simulated.memory[static_cast<std::size_t>(rank)];
    const auto peak = std::ranges::max_element(curve, {}, &MemoryPoint::bytes);
    EXPECT_NEAR(peak->bytes, static_cast<double>(declared_memory(step.work, step.candidate, {.pp = rank}).device()), 1);
    EXPECT_NEAR(curve.front().bytes, curve.back().bytes, 1);
    EXPECT_EQ(curve.size(), 1U + 2 * 6);
    EXPECT_TRUE(std::ranges::is_sorted(curve, {}, &MemoryPoint::seconds));
  }
}

// What is offloaded takes no memory of the device.
TEST(Trace, CountsEachByteWhereItLies) {
  const Work work(support::planned_model(8), 256, *find_machine("a100"));
  Candidate candidate;
  candidate.plan.pp = 2;
  candidate.plan.microbatches = 4;
  const auto peak = [&](const SimulatedStep& step) {
    return std::ranges::max_element(step.memory[0], {}, &MemoryPoint::bytes)->bytes;
  };
  const SimulatedStep all = simulate_step(work, candidate);
  EXPECT_EQ(all.elsewhere[0].host + all.elsewhere[0].disk, 0);
  for (const layout::Tier tier : {layout::Tier::host, layout::Tier::disk}) {
    candidate.plan.optimizer.tier = tier;
    const SimulatedStep step = simulate_step(work, candidate);
    const DeclaredMemory declared = declared_memory(work, candidate, {});
    EXPECT_NEAR(peak(step), static_cast<double>(device_memory(work, candidate).bytes), 1);
    EXPECT_NEAR(peak(step), static_cast<double>(declared.device()), 1);
    EXPECT_LT(peak(step), 0.9 * peak(all));
    EXPECT_EQ(declared.host > 0, tier == layout::Tier::host);
    EXPECT_EQ(declared.disk > 0, tier == layout::Tier::disk);
    EXPECT_EQ(step.elsewhere[0].host, declared.host);
    EXPECT_EQ(step.elsewhere[0].disk, declared.disk);
    const char* counter = tier == layout::Tier::host ? "host memory of pipeline rank 0" : "disks of pipeline rank 0";
    EXPECT_NE(chrome_trace(step).text().find(counter), std::string::npos);
  }
}

TEST(Trace, HasARowForEachRankAndItsMemory) {
  const Step step = piped_step();
  const Json trace = Json::parse(chrome_trace(step.simulated).text());
  std::map<std::string, int> kinds;
  double end = 0;
  for (const Json& event : trace.at("traceEvents").array()) {
    ++kinds[event.at("ph").string()];
    if (event.at("ph").string() == "X") end = std::max(end, event.at("ts").number() + event.at("dur").number());
  }
  EXPECT_EQ(kinds["M"], 2 * 4);
  EXPECT_EQ(kinds["X"], 4 * (2 * 6 + 2));
  EXPECT_EQ(kinds["C"], 4 * (1 + 2 * 6));
  EXPECT_NEAR(end, 1e6 * step.simulated.seconds(), 1e-3);
}

}  // namespace
}  // namespace lockstep::planner
