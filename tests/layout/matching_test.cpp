#include "layout/pipeline/matching.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "layout/pipeline/schedules.h"

namespace lockstep::layout {
namespace {

using Lists = std::vector<std::vector<Action>>;
using Kind = Action::Kind;

struct Pipeline {
  StageMap map;
  Lists lists;
};
Pipeline pipeline(const char* name, const PipelineShape& shape) {
  const NamedSchedule& schedule = *find_schedule(name);
  return {stage_map(schedule, shape), actions_of(schedule, shape)};
}

TEST(Matching, TheListsOfEveryScheduleMatch) {
  for (const NamedSchedule& schedule : schedules()) {
    for (const int ranks : {1, 2, 3, 5}) {
      const PipelineShape shape{ranks, usual_chunks(schedule, ranks), 2 * ranks + 1};
      EXPECT_TRUE(mismatches_of(actions_of(schedule, shape), stage_map(schedule, shape)).empty()) << schedule.name << ranks;
    }
  }
}

TEST(Matching, ListsGoThereAndBackAsText) {
  for (const std::vector<Action>& list : pipeline("zb-v", {3, 2, 5}).lists) EXPECT_EQ(read_actions(write_actions(list)), list);
  EXPECT_EQ(read_actions(""), std::vector<Action>{});
  for (const char* text : {"1 2 3", "1 2\n", "9 0 0\n", "-1 0 0\n", "a\n", "1 2 3 4\n"}) EXPECT_FALSE(read_actions(text)) << text;
}

TEST(Matching, TheFirstMessageThatDiffersIsNamed) {
  Pipeline two = pipeline("gpipe", {2, 1, 3});
  const auto is_send = [](const Action& action) { return action.kind == Kind::send_output; };
  std::vector<Action>& first = two.lists[0];
  const auto missing =
      std::ranges::find_if(first, [&](const Action& action) { return is_send(action) && action.microbatch.value == 1; });
  first.erase(missing);
  EXPECT_EQ(
      mismatches_of(two.lists, two.map),
      std::vector<std::string>{"message 2 from rank 0 to rank 1: rank 0 sends the output of stage 0 for micro-batch 2, rank 1 "
                               "receives the output of stage 0 for micro-batch 1"});
  std::erase_if(first, is_send);
  EXPECT_EQ(mismatches_of(two.lists, two.map).front(),
            "message 1 from rank 0 to rank 1: rank 0 sends nothing, rank 1 receives the output of stage 0 for micro-batch 0");
}

TEST(Matching, ListsOfDifferentSchedulesDoNotMatch) {
  const Pipeline one = pipeline("1f1b", {3, 1, 4}), other = pipeline("1f1b", {3, 1, 5});
  EXPECT_FALSE(mismatches_of({one.lists[0], other.lists[1], one.lists[2]}, one.map).empty());
  EXPECT_EQ(mismatches_of({one.lists[0]}, one.map).front(), "there are 1 lists for 3 ranks of the pipeline");
  Lists lists = one.lists;
  lists[1].front().chunk = 1;
  EXPECT_NE(mismatches_of(lists, one.map).front().find("it has no such chunk"), std::string::npos);
}

TEST(Matching, RanksThatWaitForEachOtherAreNamed) {
  Pipeline two = pipeline("1f1b", {2, 1, 2});
  std::vector<Action>& first = two.lists[0];  // the last backward pass before the last forward pass
  const auto at = [&](Kind kind) {
    return std::ranges::find_if(first, [&](const Action& action) { return action.kind == kind && action.microbatch.value == 1; });
  };
  std::iter_swap(at(Kind::forward), at(Kind::backward));
  const std::vector<std::string> problems = mismatches_of(two.lists, two.map);
  ASSERT_FALSE(problems.empty());
  EXPECT_NE(problems.front().find("waits for"), std::string::npos);
}

}  // namespace
}  // namespace lockstep::layout
