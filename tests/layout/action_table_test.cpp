// PyTorch's action tables, read and written.

#include "layout/pipeline/action_table.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "layout/pipeline/schedules.h"

namespace lockstep::layout {
namespace {

std::string refusal(std::string_view text) {
  try {
    static_cast<void>(read_action_table(text, "t.csv"));
  } catch (const UserError& error) {
    return error.what();
  }
  return "";
}

TEST(ActionTable, EveryScheduleSurvivesAFile) {
  for (const NamedSchedule& schedule : schedules()) {
    const PipelineShape shape{3, usual_chunks(schedule, 3), 6};
    const auto passes = schedule.passes(shape);
    const ActionTable table = read_action_table(write_action_table(passes), "t.csv");
    EXPECT_EQ(table.passes, passes) << schedule.name;
    EXPECT_EQ(table.map, stage_map(schedule, shape)) << schedule.name;
    EXPECT_EQ(table.microbatches, 6);
  }
  EXPECT_EQ(write_action_table(find_schedule("zb-h1")->passes({2, 1, 2})), "0F0,0F1,0I0,0W0,0I1,0W1\n1F0,1I0,1F1,1I1,1W0,1W1\n");
}

TEST(ActionTable, PausesMessagesAndOverlapsOfPyTorchAreUnderstood) {
  const ActionTable table = read_action_table(
      "0UNSHARD,0F0,0SEND_F0,0F1,,0RECV_B0,0B0 , 0B1,0REDUCE_GRAD\r\n,1RECV_F0,1F0,(1F1;1B0)OVERLAP_F_B,1I1,1W1,1RESHARD\n\n",
      "t");
  using Kind = Action::Kind;
  EXPECT_EQ(table.passes[0], (std::vector<StagePass>{
                                 {Kind::forward, 0, 0}, {Kind::forward, 0, 1}, {Kind::backward, 0, 0}, {Kind::backward, 0, 1}}));
  EXPECT_EQ(table.passes[1], (std::vector<StagePass>{{Kind::forward, 1, 0},
                                                     {Kind::forward, 1, 1},
                                                     {Kind::backward, 1, 0},
                                                     {Kind::input_backward, 1, 1},
                                                     {Kind::weight_backward, 1, 1}}));
}

TEST(ActionTable, EveryProblemIsNamed) {
  EXPECT_NE(refusal("0F0,0X0,F1\n(0B0;\n").find("t.csv: line 1, column 2: \"0X0\" is no pass"), std::string::npos);
  EXPECT_NE(refusal("0F0,0X0,F1\n(0B0;\n").find("t.csv: line 1, column 3: \"F1\" is no pass"), std::string::npos);
  EXPECT_NE(refusal("0F0,0X0,F1\n(0B0;\n").find("t.csv: line 2, column 1: \"(0B0;\" is no pass"), std::string::npos);
  EXPECT_NE(refusal("0F0,0B0,0F99999999999\n").find("column 3"), std::string::npos);
  EXPECT_NE(refusal("\n \n").find("t.csv: there are no passes in it"), std::string::npos);
  EXPECT_NE(refusal("0F0,0B0\n\n2F0,2B0\n").find("line 2 has no passes"), std::string::npos);
  EXPECT_NE(refusal("0F0,0B0\n2F0,2B0\n").find("no rank has stage 1"), std::string::npos);
  EXPECT_NE(refusal("0F0,0B0\n0F1,0B1\n").find("stage 0 is on ranks 0 and 1"), std::string::npos);
  EXPECT_NE(refusal("0F1,0B1,0F0,0B0\n").find("stage 0: the forward pass of micro-batch 1 comes where 0 is due"),
            std::string::npos);
  EXPECT_NE(refusal("0F0,0F1,0B0,0I1\n").find("stage 0: the weight backward stops at micro-batch 1 of 2"), std::string::npos);
  EXPECT_NE(refusal("0B0,0F0\n1F0,1B0\n").find("the ranks wait for each other: rank 0: backward of micro-batch 0 in chunk 0"),
            std::string::npos);
  EXPECT_NE(refusal("0X0\n").find("-> a line for each rank of cells such as 0F0,1F0,1B0,0B0"), std::string::npos);
}

}  // namespace
}  // namespace lockstep::layout
