// The schedules of the table, on every rank of pipelines of all lengths.

#include "layout/pipeline/schedules.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <map>

#include "layout/pipeline/lives.h"
#include "layout/pipeline/simulation.h"
#include "support/schedules.h"

namespace lockstep::layout {
namespace {

using Kind = Action::Kind;
using support::action;

/// Calls `each` for every schedule and every shape that it allows.
template <class Each>
void for_each_pipeline(const Each& each) {
  for (const NamedSchedule& schedule : schedules()) {
    for (const int ranks : {1, 2, 3, 4, 5, 8}) {
      for (const int chunks : {1, 2, 3}) {
        for (const int microbatches : {1, 2, 3, 4, 7, 9, 16}) {
          const PipelineShape shape{ranks, chunks, microbatches};
          if (!check(schedule, shape).empty()) continue;
          SCOPED_TRACE(testing::Message() << schedule.name << ", " << ranks << " ranks, " << chunks << " chunks, " << microbatches
                                          << " micro-batches");
          each(schedule, shape);
        }
      }
    }
  }
}

TEST(Chunks, TileTheBlocksInTheOrderOfTheirStages) {
  for (const StageMap& map : {StageMap::looped(3, 1), StageMap::looped(3, 2), StageMap::looped(3, 3), StageMap::vee(3)}) {
    for (const std::int64_t layers : {9, 11, 14}) {
      std::vector<Range> stages(static_cast<std::size_t>(map.stages()));
      for (int rank = 0; rank < 3; ++rank) {
        const std::vector<Chunk> own = chunks_of(map, rank, layers);
        ASSERT_EQ(own.size(), map.stages_of(rank).size());
        for (std::size_t c = 0; c < own.size(); ++c) {
          const int stage = map.stages_of(rank)[c];
          stages[static_cast<std::size_t>(stage)] = own[c].blocks;
          EXPECT_EQ(own[c].embedding, stage == 0);
          EXPECT_EQ(own[c].head, stage == map.stages() - 1);
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

TEST(StageMap, LoopsAndVsSayWhoHasWhat) {
  const StageMap looped = StageMap::looped(3, 2), vee = StageMap::vee(3);
  EXPECT_EQ(looped.stages_of(1), (std::vector<int>{1, 4}));
  EXPECT_EQ(looped.rank_of(5), 2);
  EXPECT_EQ(looped.chunk_of(3), 1);
  EXPECT_EQ(vee.stages_of(0), (std::vector<int>{0, 5}));
  EXPECT_EQ(vee.stages_of(2), (std::vector<int>{2, 3}));
  EXPECT_THROW(StageMap(2, {0, 0}), BrokenRule);
  EXPECT_THROW(StageMap(2, {0, 2, 1}), BrokenRule);
}

TEST(Schedules, HaveNoProblemOnAnyRank) {
  for_each_pipeline([](const NamedSchedule& schedule, const PipelineShape& shape) {
    const StageMap map = stage_map(schedule, shape);
    const std::vector<std::vector<Action>> actions = actions_of(schedule, shape);
    for (int rank = 0; rank < shape.ranks; ++rank) {
      const std::vector<Chunk> chunks = chunks_of(map, rank, map.stages());
      EXPECT_EQ(problems_of(actions[static_cast<std::size_t>(rank)], chunks, shape.microbatches), std::vector<std::string>{});
    }
  });
}

/// What one rank sent another one and this has not received, in order: which stage's input or gradient, of which micro-batch.
struct Letter {
  Kind kind;
  int stage, microbatch;
  friend bool operator==(const Letter&, const Letter&) = default;
};
using Letters = std::map<std::pair<int, int>, std::deque<Letter>>;

/// Does the action of a rank; false when it needs something that is not there. A receive needs what was sent. A forward pass
/// overwrites what the one before it in the chunk made, which must have been received.
bool go(const Action& action, int rank, const StageMap& map, Letters& letters) {
  const int stage = map.stages_of(rank)[static_cast<std::size_t>(action.chunk)];
  const bool input = action.kind == Kind::receive_input || action.kind == Kind::send_output;
  if (action.kind == Kind::forward && stage + 1 < map.stages()) {
    const std::deque<Letter>& box = letters[{rank, map.rank_of(stage + 1)}];
    const auto is_before = [&](const Letter& letter) { return letter.kind == Kind::receive_input && letter.stage == stage + 1; };
    if (std::ranges::any_of(box, is_before)) return false;
  }
  const Kind received = input ? Kind::receive_input : Kind::receive_gradient;
  if (action.kind == Kind::send_output || action.kind == Kind::send_gradient) {
    const int other = input ? stage + 1 : stage - 1;
    letters[{rank, map.rank_of(other)}].push_back({received, other, action.microbatch.value});
  }
  if (action.kind != received) return true;
  std::deque<Letter>& box = letters[{map.rank_of(input ? stage - 1 : stage + 1), rank}];
  if (box.empty()) return false;
  EXPECT_EQ(box.front(), (Letter{received, stage, action.microbatch.value})) << "received by rank " << rank;
  box.pop_front();
  return true;
}

// No rank waits for ever, even where a receive stops its rank until the message is there. What a rank sends another one comes in
// the order in which that rank receives.
TEST(Schedules, RanksOfAPipelineNeverWaitForEachOther) {
  for_each_pipeline([](const NamedSchedule& schedule, const PipelineShape& shape) {
    const StageMap map = stage_map(schedule, shape);
    std::vector<std::deque<Action>> left;
    for (const std::vector<Action>& actions : actions_of(schedule, shape)) left.emplace_back(actions.begin(), actions.end());
    Letters letters;
    for (bool moved = true; moved;) {
      moved = false;
      for (int rank = 0; rank < shape.ranks; ++rank) {
        std::deque<Action>& mine = left[static_cast<std::size_t>(rank)];
        while (!mine.empty() && go(mine.front(), rank, map, letters)) {
          mine.pop_front();
          moved = true;
        }
      }
    }
    for (const std::deque<Action>& list : left) EXPECT_TRUE(list.empty()) << to_string(list.front()) << " never comes";
    for (const auto& [way, box] : letters) EXPECT_TRUE(box.empty()) << "sent and not received";
  });
}

double peak(std::string_view name, const PipelineShape& shape, int rank) {
  return peak_activations(actions_of(*find_schedule(name), shape)[static_cast<std::size_t>(rank)], shape.chunks);
}

TEST(Schedules, KeepAsManyMicroBatchesAsTheyPromise) {
  for (int rank = 0; rank < 4; ++rank) {
    EXPECT_EQ(peak("gpipe", {4, 1, 8}, rank), 8);
    EXPECT_EQ(peak("1f1b", {4, 1, 8}, rank), 4 - rank);
    EXPECT_EQ(peak("1f1b", {4, 1, 2}, rank), std::min(2, 4 - rank));
    EXPECT_EQ(peak("breadth-first", {4, 2, 8}, rank), 8);
    EXPECT_EQ(peak("zb-h1", {4, 1, 8}, rank), 4);
    EXPECT_EQ(peak("zb-v", {4, 2, 8}, rank), 4);
    EXPECT_EQ(peak("dualpipe-v", {4, 2, 8}, rank), 4.5);
  }
  EXPECT_EQ(peak("interleaved", {4, 2, 8}, 0), 5.5);
  EXPECT_EQ(peak("interleaved", {8, 2, 16}, 0), 11.5);
}

TEST(Schedules, OneStageNeedsNoMessages) {
  EXPECT_EQ(support::in_turn(2), (std::vector<Action>{action(Kind::forward, 0), action(Kind::backward, 0),
                                                      action(Kind::forward, 1), action(Kind::backward, 1)}));
  EXPECT_EQ(support::gpipe(2), (std::vector<Action>{action(Kind::forward, 0), action(Kind::forward, 1), action(Kind::backward, 0),
                                                    action(Kind::backward, 1)}));
}

// Rank 1 needs rank 0's micro-batch 1 of stage 0 behind the gradient of stage 2 that rank 0 sent before it: it takes both.
TEST(Schedules, MessagesAreReceivedInTheOrderInWhichTheyAreSent) {
  const std::vector<std::vector<StagePass>> passes{
      {{Kind::forward, 0, 0},
       {Kind::forward, 2, 0},
       {Kind::backward, 2, 0},
       {Kind::forward, 0, 1},
       {Kind::backward, 0, 0},
       {Kind::forward, 2, 1},
       {Kind::backward, 2, 1},
       {Kind::backward, 0, 1}},
      {{Kind::forward, 1, 0}, {Kind::forward, 1, 1}, {Kind::backward, 1, 0}, {Kind::backward, 1, 1}}};
  const std::vector<Action> second = with_messages(passes, StageMap(2, {0, 1, 0}))[1];
  EXPECT_EQ((std::vector<Action>(second.begin(), second.begin() + 6)),
            (std::vector<Action>{action(Kind::receive_input, 0), action(Kind::forward, 0), action(Kind::send_output, 0),
                                 action(Kind::receive_gradient, 0), action(Kind::receive_input, 1), action(Kind::forward, 1)}));
}

TEST(Schedules, NumbersThatASchedulePreventsAreNamed) {
  const auto problem = [](std::string_view name, const PipelineShape& shape) {
    const std::vector<Problem> problems = check(*find_schedule(name), shape);
    return problems.empty() ? std::string() : problems.front().message;
  };
  EXPECT_EQ(problem("1f1b", {2, 2, 4}), "parallel.virtual_stages = 2: schedule 1f1b has one chunk a rank");
  EXPECT_EQ(problem("interleaved", {2, 1, 4}),
            "parallel.virtual_stages = 1: schedule interleaved has at least two chunks a rank");
  EXPECT_EQ(problem("zb-v", {2, 3, 4}), "parallel.virtual_stages = 3: schedule zb-v has two chunks a rank, in a V");
  EXPECT_EQ(problem("dualpipe-v", {4, 2, 7}),
            "optimizer.gas = 7: schedule dualpipe-v needs at least 2 micro-batches for each of 4 ranks");
  EXPECT_EQ(problem("dualpipe-v", {1, 1, 1}), "") << "a rank alone has no V";
  EXPECT_EQ(usual_chunks(*find_schedule("zb-v"), 4), 2);
  EXPECT_EQ(usual_chunks(*find_schedule("zb-v"), 1), 1);
  EXPECT_EQ(usual_chunks(*find_schedule("zb-h1"), 4), 1);

  EXPECT_EQ(find_schedule("2f2b"), nullptr);
  for (const NamedSchedule& schedule : schedules()) {
    EXPECT_EQ(find_schedule(schedule.name), &schedule);
    EXPECT_THROW(actions_of(schedule, {.microbatches = 0}), BrokenRule);
    EXPECT_THROW(actions_of(schedule, {.ranks = 2, .chunks = 0, .microbatches = 4}), BrokenRule);
  }
}

}  // namespace
}  // namespace lockstep::layout
