// What schedules cost by the simulator, against known makespans.

#include "layout/pipeline/simulation.h"

#include <gtest/gtest.h>

#include "layout/pipeline/schedules.h"
#include "support/schedules.h"

namespace lockstep::layout {
namespace {

using Kind = Action::Kind;
using support::action;

Timeline timeline(std::string_view name, const PipelineShape& shape, const PassSeconds& seconds = {}) {
  const NamedSchedule& schedule = *find_schedule(name);
  return simulate(actions_of(schedule, shape), stage_map(schedule, shape), seconds);
}

// Forward, input backward and weight backward take one each; a schedule's own paper says the bubble: (p - 1) 3 for 1f1b, that
// divided by v when interleaved, p - 1 for zb-h1, and (p - 1) / 2 for chunks in a V.
TEST(Simulation, MakespansAreThoseOfThePapers) {
  struct Row {
    int ranks, microbatches;
    double one_chunk, two_chunks, four_chunks, zb_h1, vee;
  };
  for (const Row& row :
       {Row{4, 8, 33, 28.5, 26.25, 27, 25.5}, Row{8, 16, 69, 58.5, 53.25, 55, 51.5}, Row{8, 32, 117, 106.5, 101.25, 103, 99.5}}) {
    const auto makespan = [&](std::string_view name, int chunks) {
      return timeline(name, {row.ranks, chunks, row.microbatches}).makespan;
    };
    EXPECT_DOUBLE_EQ(makespan("gpipe", 1), row.one_chunk);
    EXPECT_DOUBLE_EQ(makespan("1f1b", 1), row.one_chunk);
    EXPECT_DOUBLE_EQ(makespan("interleaved", 2), row.two_chunks);
    EXPECT_DOUBLE_EQ(makespan("interleaved", 4), row.four_chunks);
    EXPECT_DOUBLE_EQ(makespan("breadth-first", 2), row.two_chunks);
    EXPECT_DOUBLE_EQ(makespan("zb-h1", 1), row.zb_h1);
    EXPECT_DOUBLE_EQ(makespan("zb-v", 2), row.vee);
    EXPECT_DOUBLE_EQ(makespan("dualpipe-v", 2), row.vee);
  }
  EXPECT_DOUBLE_EQ(timeline("zb-h1", {8, 1, 32}, {.forward = 1, .input_backward = 1.2, .weight_backward = 0.8}).makespan, 105.8);
}

TEST(Simulation, NoScheduleHasADeadlock) {
  for (const NamedSchedule& schedule : schedules()) {
    for (int ranks = 1; ranks <= 8; ++ranks) {
      for (int chunks = 1; chunks <= 4; ++chunks) {
        for (int microbatches = 1; microbatches <= 24; ++microbatches) {
          const PipelineShape shape{ranks, chunks, microbatches};
          if (!check(schedule, shape).empty()) continue;
          const Timeline times = simulate(actions_of(schedule, shape), stage_map(schedule, shape));
          ASSERT_TRUE(times.deadlock.empty()) << schedule.name << " " << times.deadlock.front();
          ASSERT_GE(times.makespan, 3 * microbatches - 1e-9);
        }
      }
    }
  }
}

TEST(Simulation, PassesMessagesAndBubblesAreTimed) {
  const Timeline times = timeline("1f1b", {2, 1, 1}, {.forward = 2, .input_backward = 3, .weight_backward = 4, .message = 0.5});
  ASSERT_EQ(times.ranks[0].size(), 2U);
  EXPECT_EQ(times.ranks[1][0].start, 2.5);
  EXPECT_EQ(times.ranks[1][1].end, 4.5 + 7);
  EXPECT_EQ(times.ranks[0][1].start, 12);
  EXPECT_EQ(times.makespan, 19);
  EXPECT_DOUBLE_EQ(bubble(times), 1 - 18.0 / 38);
  EXPECT_EQ(bubble(Timeline{}), 0);
  EXPECT_EQ(messages_sent(actions_of(*find_schedule("interleaved"), {4, 2, 8})[0]), 3 * 8);
  EXPECT_EQ(messages_sent(actions_of(*find_schedule("1f1b"), {4, 1, 8})[1]), 2 * 8);
}

TEST(Simulation, ADeadlockNamesWhoWaitsForWhat) {
  const StageMap map = StageMap::looped(2, 1);
  const std::vector<std::vector<Action>> actions{{action(Kind::backward, 0), action(Kind::forward, 0)},
                                                 {action(Kind::forward, 0), action(Kind::backward, 0)}};
  const Timeline times = simulate(actions, map);
  ASSERT_EQ(times.deadlock.size(), 3U);
  EXPECT_EQ(times.deadlock[0],
            "rank 0: backward of micro-batch 0 in chunk 0 waits for the forward pass of micro-batch 0 in stage 0 (rank 0)");
  EXPECT_EQ(times.deadlock[1],
            "rank 0: backward of micro-batch 0 in chunk 0 waits for the input backward of micro-batch 0 in stage 1 (rank 1)");
  EXPECT_EQ(times.deadlock[2],
            "rank 1: forward of micro-batch 0 in chunk 0 waits for the forward pass of micro-batch 0 in stage 0 (rank 0)");
}

}  // namespace
}  // namespace lockstep::layout
