// The schedules of the table, on every rank of pipelines of all lengths.

#include "layout/schedules.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <map>

#include "base/error.h"
#include "layout/lives.h"
#include "support/schedules.h"

namespace lockstep::layout {
namespace {

using Kind = Action::Kind;
using support::action;

Chunk chunk_of(const PipelinePlace& place) {
  return {.blocks = {place.stage, 1}, .embedding = place.stage == 0, .head = place.stage == place.stages - 1};
}

/// Calls `each` for every schedule, number of stages and of micro-batches.
template <class Each>
void for_each_pipeline(const Each& each) {
  for (const NamedSchedule& schedule : schedules()) {
    for (const int stages : {1, 2, 3, 4, 5}) {
      for (const int microbatches : {1, 2, 3, 4, 9}) {
        SCOPED_TRACE(testing::Message() << schedule.name << ", " << stages << " stages, " << microbatches << " micro-batches");
        each(schedule, stages, microbatches);
      }
    }
  }
}

TEST(Chunks, AreDealtInTurnAndTileTheBlocks) {
  for (const int chunks : {1, 2, 3}) {
    const ParallelPlan plan{.pp = 3, .chunks = chunks};
    for (const std::int64_t layers : {9, 11, 14}) {
      std::vector<Range> stages(static_cast<std::size_t>(3 * chunks));
      for (int rank = 0; rank < 3; ++rank) {
        const std::vector<Chunk> own = chunks_of(plan, rank, layers);
        ASSERT_EQ(std::ssize(own), chunks);
        for (int c = 0; c < chunks; ++c) {
          const Chunk& chunk = own[static_cast<std::size_t>(c)];
          stages[static_cast<std::size_t>(c * 3 + rank)] = chunk.blocks;
          EXPECT_EQ(chunk.embedding, rank == 0 && c == 0);
          EXPECT_EQ(chunk.head, rank == 2 && c == chunks - 1);
        }
      }
      std::int64_t next = 0;
      for (const Range& stage : stages) {
        EXPECT_EQ(stage.first, next);
        EXPECT_GE(stage.count, 1);
        next = stage.end();
      }
      EXPECT_EQ(next, layers);
    }
  }
}

TEST(Schedules, HaveNoProblemOnAnyRank) {
  for_each_pipeline([](const NamedSchedule& schedule, int stages, int microbatches) {
    for (int stage = 0; stage < stages; ++stage) {
      const PipelinePlace place{.stage = stage, .stages = stages, .microbatches = microbatches};
      EXPECT_EQ(problems_of(schedule.actions(place), {chunk_of(place)}, microbatches), std::vector<std::string>{});
    }
  });
}

/// Micro-batches sent from one rank to another and not yet received, in their order.
using Letters = std::map<std::pair<int, int>, std::deque<int>>;

/// Does the action when it needs nothing that is not there, a receive what was sent.
bool go(const Action& action, int stage, Letters& letters) {
  const bool receives = action.kind == Kind::receive_input || action.kind == Kind::receive_gradient;
  const bool sends = action.kind == Kind::send_output || action.kind == Kind::send_gradient;
  const int other = action.kind == Kind::receive_input || action.kind == Kind::send_gradient ? stage - 1 : stage + 1;
  if (sends) letters[{stage, other}].push_back(action.microbatch.value);
  if (!receives) return true;
  std::deque<int>& box = letters[{other, stage}];
  if (box.empty()) return false;
  EXPECT_EQ(box.front(), action.microbatch.value) << "received by stage " << stage;
  box.pop_front();
  return true;
}

// Even where a receive stops its rank until the message is there.
TEST(Schedules, RanksOfAPipelineNeverWaitForEachOther) {
  for_each_pipeline([](const NamedSchedule& schedule, int stages, int microbatches) {
    std::vector<std::deque<Action>> left;
    for (int stage = 0; stage < stages; ++stage) {
      const std::vector<Action> actions = schedule.actions({.stage = stage, .stages = stages, .microbatches = microbatches});
      left.emplace_back(actions.begin(), actions.end());
    }
    Letters letters;
    for (bool moved = true; moved;) {
      moved = false;
      for (int stage = 0; stage < stages; ++stage) {
        std::deque<Action>& mine = left[static_cast<std::size_t>(stage)];
        while (!mine.empty() && go(mine.front(), stage, letters)) {
          mine.pop_front();
          moved = true;
        }
      }
    }
    for (const std::deque<Action>& list : left) EXPECT_TRUE(list.empty()) << to_string(list.front()) << " never comes";
    for (const auto& [way, box] : letters) EXPECT_TRUE(box.empty()) << "sent and not received";
  });
}

TEST(Schedules, KeepAsManyMicroBatchesAsTheyPromise) {
  const auto kept = [](std::string_view name, int stage, int microbatches) {
    const PipelinePlace place{.stage = stage, .stages = 4, .microbatches = microbatches};
    return lives_of(find_schedule(name)->actions(place), {chunk_of(place)}, microbatches).front().kept;
  };
  for (int stage = 0; stage < 4; ++stage) {
    EXPECT_EQ(kept("gpipe", stage, 8), 8);
    EXPECT_EQ(kept("1f1b", stage, 8), 4 - stage);
    EXPECT_EQ(kept("1f1b", stage, 2), std::min(2, 4 - stage));
  }
}

TEST(Schedules, OneStageNeedsNoMessages) {
  EXPECT_EQ(find_schedule("1f1b")->actions({.microbatches = 2}),
            (std::vector<Action>{action(Kind::forward, 0), action(Kind::backward, 0), action(Kind::forward, 1),
                                 action(Kind::backward, 1)}));
  EXPECT_EQ(find_schedule("gpipe")->actions({.microbatches = 2}),
            (std::vector<Action>{action(Kind::forward, 0), action(Kind::forward, 1), action(Kind::backward, 0),
                                 action(Kind::backward, 1)}));
}

TEST(Schedules, NamesAndPlacesOutsideThePipelineAreRefused) {
  EXPECT_EQ(find_schedule("2f2b"), nullptr);
  for (const NamedSchedule& schedule : schedules()) {
    EXPECT_EQ(find_schedule(schedule.name), &schedule);
    EXPECT_THROW(schedule.actions({.microbatches = 0}), BrokenRule);
    EXPECT_THROW(schedule.actions({.stage = 2, .stages = 2}), BrokenRule);
  }
}

}  // namespace
}  // namespace lockstep::layout
