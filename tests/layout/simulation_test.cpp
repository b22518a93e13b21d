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

// Forward, input backward and weight backward take one each. A schedule's own paper says the bubble: (p - 1) 3 for 1f1b, and that
// divided by v when interleaved. It is p - 1 for zb-h1, and (p - 1) / 2 for chunks in a V.
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

/// Passes of one chunk a rank. At each tick each rank takes an input gradient if it can. Else it takes a forward pass while it
/// keeps fewer than `room` micro-batches, else a weight gradient.
std::vector<std::vector<Action>> whatever_is_ready(int ranks, int microbatches, int room) {
  struct Rank {
    int forward = 0, backward = 0, weights = 0;
  };
  std::vector<Rank> now(static_cast<std::size_t>(ranks));
  std::vector<std::vector<StagePass>> passes(now.size());
  for (int left = 3 * ranks * microbatches; left > 0;) {
    const std::vector<Rank> before = now;
    for (int r = 0; r < ranks; ++r) {
      const auto i = static_cast<std::size_t>(r);
      Rank& own = now[i];
      const int sent = r == 0 ? microbatches : before[i - 1].forward;
      const int returned = r == ranks - 1 ? before[i].forward : before[i + 1].backward;
      --left;
      if (own.backward < std::min(own.forward, returned)) {
        passes[i].push_back({Kind::input_backward, r, own.backward++});
      } else if (own.forward < sent && own.forward - own.weights < room) {
        passes[i].push_back({Kind::forward, r, own.forward++});
      } else if (own.weights < own.backward) {
        passes[i].push_back({Kind::weight_backward, r, own.weights++});
      } else {
        ++left;
      }
    }
  }
  return with_messages(passes, StageMap::looped(ranks, 1));
}

// A step ends for all ranks at once, and the last one cannot begin before p - 1 forward passes. So zb-h1 is as short as a list
// with room for 2 p - 1 micro-batches. With room for p alone, a list that takes whatever is ready is longer.
TEST(Simulation, RoomForMoreMicroBatchesMakesNoStepShorter) {
  for (const auto& [ranks, microbatches] : {std::pair{4, 8}, {8, 16}, {8, 32}}) {
    const StageMap map = StageMap::looped(ranks, 1);
    const double bound = ranks - 1 + 3 * microbatches;
    const std::vector<std::vector<Action>> roomy = whatever_is_ready(ranks, microbatches, 2 * ranks - 1);
    EXPECT_DOUBLE_EQ(simulate(roomy, map).makespan, bound);
    EXPECT_DOUBLE_EQ(timeline("zb-h1", {ranks, 1, microbatches}).makespan, bound);
    EXPECT_DOUBLE_EQ(simulate(whatever_is_ready(ranks, microbatches, ranks), map).makespan, bound + 2);
  }
}

TEST(Simulation, NoStepEndsBeforeTheLastRankCouldHaveBegun) {
  for (const NamedSchedule& schedule : schedules()) {
    for (const int ranks : {2, 3, 4, 8}) {
      for (const int chunks : {1, 2, 4}) {
        for (const int microbatches : {1, 4, 16, 17}) {
          const PipelineShape shape{ranks, chunks, microbatches};
          if (!check(schedule, shape).empty()) continue;
          EXPECT_GE(timeline(schedule.name, shape).makespan + 1e-9, (ranks - 1.0) / chunks + 3 * microbatches) << schedule.name;
        }
      }
    }
  }
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

// Rank 1 takes three times as long as rank 0, which waits for it.
TEST(Simulation, StagesMayTakeDifferentTimes) {
  const NamedSchedule& schedule = *find_schedule("1f1b");
  const PipelineShape shape{2, 1, 2};
  const Timeline times = simulate(actions_of(schedule, shape), stage_map(schedule, shape),
                                  {{.forward = 1, .input_backward = 1, .weight_backward = 1, .message = 0.25},
                                   {.forward = 3, .input_backward = 6, .weight_backward = 0}});
  EXPECT_EQ(times.ranks[1][0].start, 1.25);
  EXPECT_EQ(times.ranks[1].back().end, 1.25 + 2 * (3 + 6));
  EXPECT_EQ(times.makespan, 21.25) << "the second stage's message takes no time";
  EXPECT_DOUBLE_EQ(bubble(times, 0), 1 - 6 / 21.25);
  EXPECT_DOUBLE_EQ(bubble(times, 1), 1 - 18 / 21.25);
  EXPECT_DOUBLE_EQ(bubble(times), (bubble(times, 0) + bubble(times, 1)) / 2);
  EXPECT_THROW(simulate(actions_of(schedule, shape), stage_map(schedule, shape), std::vector<PassSeconds>(1)), BrokenRule);
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
