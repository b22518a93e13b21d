// `lockstep verify --against` as a user has it.

#include <gtest/gtest.h>

#include "app/cli/commands.h"
#include "base/error.h"
#include "lab/against_dumps.h"

namespace lockstep::app {
namespace {

using namespace lab::against;

class AgainstCommand : public testing::Test {
 protected:
  int judge(const Case& c, const std::vector<std::string>& more = {}) {
    write_tensors(folder_ / "step.safetensors", step_.tensors(c));
    io::replace_file(folder_ / "step.json", step_.json().dump());
    Arguments arguments{"--against", folder_.path().string()};
    arguments.insert(arguments.end(), more.begin(), more.end());
    testing::internal::CaptureStdout();
    const int code = verify_command().run(arguments);
    text_ = testing::internal::GetCapturedStdout();
    return code;
  }
  void expect(const std::string& part) const { EXPECT_NE(text_.find(part), std::string::npos) << part << " in " << text_; }

  const MadeStep step_{"gpt2"};
  const TempFolder folder_;
  std::string text_;
};

TEST_F(AgainstCommand, AStepThatAgrees) {
  EXPECT_EQ(judge(step_.right), 0);
  expect(": 1 blocks of width 24, ");
  expect("4 x 12 tokens, 32 taught; fp32; 1 file\nagrees: ");
}

TEST_F(AgainstCommand, AWrongStepIsToldWithItsCause) {
  Case wrong = step_.right;
  std::ranges::find(all_ways(), "padding-counted", &Way::word)->change(wrong, 48);
  EXPECT_EQ(judge(wrong), 1);
  expect("WRONG first: loss: off by 33 % of its size, where rounding may do ");
  expect(" more behind it: gradient.transformer.ln_f.bias, ");
  expect("why: the sum of losses is divided by 48 tokens: those that are not taught are counted [padding-counted]\n");
  EXPECT_EQ(judge(wrong, {"--json"}), 1);
  const Json json = Json::parse(text_);
  EXPECT_FALSE(json.at("agrees").boolean());
  EXPECT_EQ(json.at("causes").array().at(0).at("way").string(), "padding-counted");
  EXPECT_EQ(json.at("wrong").array().at(0).at("tensor").string(), "loss");
}

TEST_F(AgainstCommand, AnUnknownFaultIsNotGuessed) {
  Case wrong = step_.right;
  wrong.question.config.norm_eps = 0.3F;
  EXPECT_EQ(judge(wrong), 1);
  expect("WRONG first: activation.transformer.h.0.ln_1: ");
  expect("why: not known. None of ");
}

TEST_F(AgainstCommand, ADumpThatIsNotThereIsRefused) { EXPECT_THROW(verify_command().run({"--against", "nowhere"}), UserError); }

}  // namespace
}  // namespace lockstep::app
