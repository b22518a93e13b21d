#include <gtest/gtest.h>

#include <algorithm>

#include "base/error.h"
#include "layout/access_order.h"
#include "layout/pipeline/lives.h"
#include "support/schedules.h"

namespace lockstep::layout {
namespace {

using Kind = Action::Kind;
using support::action;

const std::vector<Chunk> whole{{.blocks = {0, 4}, .embedding = true, .head = true}};
const std::vector<Chunk> halves{{.blocks = {0, 2}, .embedding = true, .head = false},
                                {.blocks = {2, 2}, .embedding = false, .head = true}};

bool mentions(const std::vector<std::string>& problems, std::string_view text) {
  return std::ranges::any_of(problems, [&](const std::string& p) { return p.find(text) != std::string::npos; });
}

TEST(PipelineSchedule, OneStageKeepsOneMicroBatch) {
  const std::vector<Action> actions = support::in_turn(4);
  EXPECT_TRUE(problems_of(actions, whole, 4).empty());
  const ChunkLives lives = lives_of(actions, whole, 4).front();
  EXPECT_EQ(lives.kept, 1);
  EXPECT_EQ(lives.activated, 1);
  EXPECT_EQ(lives.deferred, 0);
  EXPECT_EQ(lives.inputs, 0);
  EXPECT_EQ(lives.outputs, 1);
  EXPECT_EQ(lives.gradients, 1);
  EXPECT_TRUE(lives.immediate);
  EXPECT_EQ(open_microbatches(actions, whole, 4), 1);
}

TEST(PipelineSchedule, LivesFollowFromTheList) {
  EXPECT_EQ(lives_of(support::gpipe(4), whole, 4).front().kept, 4);
  EXPECT_EQ(lives_of(support::gpipe(4), whole, 4).front().gradients, 4);
  EXPECT_EQ(lives_of(support::running_ahead(4, 2), whole, 4).front().kept, 3);
  EXPECT_EQ(open_microbatches(support::gpipe(4), whole, 4), 4);

  const ChunkLives late = lives_of(support::late_weights(4, 2), whole, 4).front();
  EXPECT_EQ(late.kept, 1);
  EXPECT_EQ(late.activated, 3);
  EXPECT_EQ(late.deferred, 3);
  EXPECT_EQ(late.gradients, 1);
  EXPECT_FALSE(late.immediate);
}

TEST(PipelineSchedule, ChunksOfOneRankHandOver) {
  const std::vector<ChunkLives> lives = lives_of(support::two_chunks(4, 2), halves, 4);
  EXPECT_EQ(lives[0].outputs, 0);  // it writes into the second one's input
  EXPECT_EQ(lives[1].inputs, 2);
  EXPECT_EQ(lives[0].gradients, 0);  // it goes on with the second one's
  EXPECT_EQ(lives[0].gradients_of, 1);
  EXPECT_EQ(lives[1].gradients, 2);
}

TEST(PipelineSchedule, MessagesTakeSlotsUntilTheyAreUsed) {
  std::vector<Action> actions;
  for (int m = 0; m < 3; ++m) actions.push_back(action(Kind::receive_input, m));
  for (int m = 0; m < 3; ++m) actions.push_back(action(Kind::forward, m));
  for (int m = 0; m < 3; ++m) {
    actions.push_back(action(Kind::backward, m));
    actions.push_back(action(Kind::send_gradient, m));
  }
  const ChunkLives lives = lives_of(actions, {halves[1]}, 3).front();
  EXPECT_EQ(lives.inputs, 3);
  EXPECT_EQ(lives.gradients, 3);
  EXPECT_EQ(lives.outputs, 1);
}

TEST(PipelineSchedule, AListOutOfMicroBatchOrderIsRefused) {
  for (const Kind kind : {Kind::forward, Kind::input_backward, Kind::weight_backward}) {
    std::vector<Action> actions = support::all_apart(3);
    const auto first = std::ranges::find(actions, action(kind, 1)), second = std::ranges::find(actions, action(kind, 2));
    std::iter_swap(first, second);
    EXPECT_TRUE(mentions(problems_of(actions, whole, 3), "comes where micro-batch 1 is due")) << to_string(action(kind, 2));
    EXPECT_THROW(lives_of(actions, whole, 3), BrokenRule);
  }
}

TEST(PipelineSchedule, EveryProblemIsNamed) {
  const auto without = [](std::vector<Action> actions, const Action& left_out) {
    std::erase(actions, left_out);
    return actions;
  };
  EXPECT_TRUE(mentions(problems_of(without(support::in_turn(2), action(Kind::backward, 1)), whole, 2),
                       "chunk 0: the input backward stops at micro-batch 1 of 2"));
  EXPECT_TRUE(mentions(problems_of({action(Kind::backward, 0), action(Kind::forward, 0)}, whole, 1),
                       "the input backward of micro-batch 0 comes before its forward pass"));
  EXPECT_TRUE(mentions(
      problems_of({action(Kind::forward, 0), action(Kind::weight_backward, 0), action(Kind::input_backward, 0)}, whole, 1),
      "the weight backward of micro-batch 0 comes before its input backward"));
  EXPECT_TRUE(mentions(problems_of({action(Kind::forward, 0, 1)}, whole, 1), "this rank has no such chunk"));
  const std::vector<Action> alone{action(Kind::forward, 0), action(Kind::backward, 0)};
  EXPECT_TRUE(mentions(problems_of(alone, {halves[0]}, 1), "the output of chunk 0 goes nowhere"));
  EXPECT_TRUE(mentions(problems_of(alone, {halves[0]}, 1), "comes before its gradient is there"));
  EXPECT_TRUE(mentions(problems_of(alone, {halves[1]}, 1), "chunk 0 gets its input from nowhere"));
  EXPECT_TRUE(
      mentions(problems_of({action(Kind::receive_input, 0), action(Kind::forward, 0), action(Kind::backward, 0)}, whole, 1),
               "chunk 0 has the embedding"));
  EXPECT_TRUE(mentions(problems_of({action(Kind::forward, 0), action(Kind::send_output, 0), action(Kind::backward, 0)}, whole, 1),
                       "chunk 0 has the head"));
  std::vector<Chunk> gap = halves;
  gap[1].blocks = {3, 1};
  EXPECT_TRUE(mentions(problems_of(support::two_chunks(2, 1), gap, 2), "does not end where it begins"));
  std::vector<Action> swapped = support::two_chunks(1, 1);
  std::swap(swapped[0], swapped[1]);
  EXPECT_TRUE(mentions(problems_of(swapped, halves, 1), "comes before its input is there"));
}

TEST(AccessOrder, WeightGradientsNeedNoWeights) {
  const Part first{UnitIndex{0}, {0, 256}}, second{UnitIndex{1}, {16, 32}};
  const std::vector<ChunkParts> parts{{.forward = {first, second}, .backward = {second}, .backward_at_once = {second}}};
  const std::vector<Access> both = access_order(support::in_turn(2), parts);
  const std::vector<Access> one{{first, Pass::forward}, {second, Pass::forward}, {second, Pass::backward}};
  std::vector<Access> twice = one;
  twice.insert(twice.end(), one.begin(), one.end());
  EXPECT_EQ(both, twice);
  EXPECT_EQ(access_order(support::late_weights(1, 0), parts), one);
}

TEST(AccessOrder, BackwardDirectlyBehindForwardMayNeedLess) {
  const Part first{UnitIndex{0}, {0, 256}}, second{UnitIndex{1}, {16, 32}};
  const std::vector<ChunkParts> parts{{.forward = {}, .backward = {second, first}, .backward_at_once = {first}}};
  const Access again{second, Pass::backward}, back{first, Pass::backward};
  EXPECT_EQ(access_order(support::in_turn(2), parts), (std::vector<Access>{back, back}));
  EXPECT_EQ(access_order(support::gpipe(2), parts), (std::vector<Access>{again, back, again, back}));
  EXPECT_EQ(access_order(support::late_weights(1, 0), parts), (std::vector<Access>{again, back}));
  // Messages and weight gradients between them change nothing; another micro-batch's pass does.
  std::vector<Action> actions{action(Kind::forward, 0), action(Kind::send_output, 0), action(Kind::weight_backward, 0),
                              action(Kind::backward, 0)};
  EXPECT_EQ(access_order(actions, parts), (std::vector<Access>{back}));
  actions.insert(actions.begin() + 1, action(Kind::input_backward, 1));
  EXPECT_EQ(access_order(actions, parts), (std::vector<Access>{again, back, again, back}));
}

}  // namespace
}  // namespace lockstep::layout
