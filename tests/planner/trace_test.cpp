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
    EXPECT_NEAR(peak->bytes, static_cast<double>(declared_memory(step.work, step.candidate, {.pp = rank}).total()), 1);
    EXPECT_NEAR(curve.front().bytes, curve.back().bytes, 1);
    EXPECT_EQ(curve.size(), 1U + 2 * 6);
    EXPECT_TRUE(std::ranges::is_sorted(curve, {}, &MemoryPoint::seconds));
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
