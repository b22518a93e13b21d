// Dumps that cannot be judged: each gets one sentence.

#include "lab/against_dumps.h"

namespace lockstep::lab::against {
namespace {

class AgainstDump : public testing::Test {
 protected:
  AgainstDump() : tensors_(step_.tensors(step_.right)), json_(step_.json()) {}

  std::string refusal() {
    write_tensors(folder_ / "step.safetensors", tensors_);
    io::replace_file(folder_ / "step.json", json_.dump());
    return refusal(folder_.path());
  }
  static std::string refusal(const io::Path& path) {
    try {
      MadeStep::judged(path);
    } catch (const UserError& error) {
      EXPECT_EQ(error.problems().size(), 1U) << error.what();
      return error.what();
    }
    return "";
  }
  void expect_refusal(const std::string& said) {
    const std::string text = refusal();
    EXPECT_NE(text.find(said), std::string::npos) << text;
  }

  const MadeStep step_{"gpt2"};
  const TempFolder folder_;
  Tensors tensors_;
  Json json_;
};

TEST_F(AgainstDump, WhatIsGoodIsRead) { EXPECT_EQ(refusal(), ""); }

TEST_F(AgainstDump, MissingFilesAndTensors) {
  EXPECT_NE(refusal(folder_ / "none").find("there is no such file or folder"), std::string::npos);
  EXPECT_NE(refusal(folder_.path()).find("there is no safetensors file in it"), std::string::npos);
  write_tensors(folder_ / "step.safetensors", tensors_);
  EXPECT_NE(refusal(folder_.path()).find("there is no step.json beside it"), std::string::npos);
  tensors_.erase("tokens");
  expect_refusal("tokens: the dump does not have them");
  tensors_ = {{"tokens", step_.tensors(step_.right).at("tokens")}};
  expect_refusal("the dump has nothing to judge");
  json_.set("model", "nowhere");
  expect_refusal("nowhere: there is no such file or folder");
}

TEST_F(AgainstDump, TokensThatAreNoneOfTheModels) {
  tensors_.at("tokens").values[3] = 47;
  expect_refusal("tokens: 47 at [0, 3] is none of the model's 47");
}

TEST_F(AgainstDump, WrongShapesAndTypes) {
  tensors_.at("gradient.transformer.h.0.ln_1.weight").shape = {6, 4};
  expect_refusal("gradient.transformer.h.0.ln_1.weight: its shape is [6, 4], but the model's is [24]");
  tensors_.erase("gradient.transformer.h.0.ln_1.weight");
  tensors_.at("tokens").shape = {6, 8};
  expect_refusal("targets: it is [4, 12], but must be [6, 8] as the tokens");
}

TEST_F(AgainstDump, NumbersThatAreNotFinite) {
  tensors_.at("gradient.transformer.wte.weight").values[25] = std::nan("");
  expect_refusal("the tensor \"gradient.transformer.wte.weight\" is not finite at [1, 1]: nan");
}

TEST_F(AgainstDump, ADamagedHeader) {
  refusal();
  std::string content = io::read_file(folder_ / "step.safetensors");
  content[9] ^= 0x10;
  io::replace_file(folder_ / "step.safetensors", content);
  EXPECT_NE(refusal(folder_.path()).find("step.safetensors"), std::string::npos);
}

TEST_F(AgainstDump, AFileThatEndsEarly) {
  refusal();
  const std::string content = io::read_file(folder_ / "step.safetensors");
  io::replace_file(folder_ / "step.safetensors", content.substr(0, content.size() - 100));
  EXPECT_NE(refusal(folder_.path()).find("step.safetensors"), std::string::npos);
}

TEST_F(AgainstDump, ARankWithoutAFile) {
  json_.set("coordinates", Json::Object{{"dp", 0}});
  json_.set("slices", Json::Object{{"tokens", Json::Array{Json::Array{4, 8}, Json::Array{0, 12}}}});
  expect_refusal("the dump has 1 ranks' files, but the step had 2 ranks: dp 2 x tp 1 x cp 1 x pp 1");
  json_.set("dp", 1);
  expect_refusal("tokens: the ranks' files do not have all of it");
}

TEST_F(AgainstDump, FactsThatAreNotKnown) {
  json_.set("learning_rat", 1);
  expect_refusal("\"learning_rat\" is not known\n  -> say \"learning_rate\"");
  json_ = step_.json();
  json_.set("betas", 0.9);
  expect_refusal("\"betas\" is 0.9, but must be two numbers from 0 to 1");
  json_ = step_.json();
  json_.set("dtype", "fp8");
  expect_refusal("\"dtype\" is \"fp8\", but must be one of fp32 tf32 bf16 fp16");
  json_ = step_.json();
  json_.set("decay_in_gradient", 1);
  expect_refusal("\"decay_in_gradient\" is 1, but must be true or false");
  json_ = step_.json();
  json_.set("dp", 1.5);
  expect_refusal("\"dp\" is 1.5, but must be a whole number of at least 1");
  json_ = step_.json();
  json_.set("frozen", "lm_head.weight");
  expect_refusal("\"frozen\" must be a list of parameters' names");
}

TEST_F(AgainstDump, SlicesThatDoNotFit) {
  json_.set("slices", Json::Object{{"tokens", Json::Array{Json::Array{0, 4}, Json::Array{0, 11}}}});
  expect_refusal("the slice of \"tokens\" is [[0,4],[0,11]], but the tensor is [4, 12]");
  json_.set("slices", Json::Object{{"tokens", Json::Array{Json::Array{0, 4}, Json::Array{0, 1000000000}}}});
  expect_refusal("the slice [0,1000000000] is no [start, stop] that fits 12 elements");
}

TEST_F(AgainstDump, RanksThatContradict) {
  write_tensors(folder_ / "a.safetensors", tensors_);
  write_tensors(folder_ / "b.safetensors", tensors_);
  io::replace_file(folder_ / "a.json", json_.dump());
  io::replace_file(folder_ / "b.json", json_.dump());
  EXPECT_NE(refusal(folder_.path()).find("each rank's file says \"coordinates\" of its own"), std::string::npos);
  json_.set("coordinates", Json::Object{{"dp", 0}});
  io::replace_file(folder_ / "a.json", json_.dump());
  json_.set("coordinates", Json::Object{{"dp", 1}});
  io::replace_file(folder_ / "b.json", json_.dump());
  tensors_.at("tokens").values[2] = 1 - tensors_.at("tokens").values[2];
  tensors_.at("tokens").values[2] = std::abs(tensors_.at("tokens").values[2]);
  write_tensors(folder_ / "b.safetensors", tensors_);
  EXPECT_NE(refusal(folder_.path()).find("tokens: two ranks have another one at [0, 2]"), std::string::npos);
  json_.set("learning_rate", 5);
  io::replace_file(folder_ / "b.json", json_.dump());
  EXPECT_NE(refusal(folder_.path()).find("b.json: it says another \"learning_rate\" (5 and not 0.001) than"), std::string::npos);
}

TEST_F(AgainstDump, WhatIsNotGivenIsNotJudged) {
  json_.set("learning_rate", nullptr);
  refusal();
  Team team(1);
  const Dump dump = read_dump(folder_.path());
  const Step step(dump, checkpoint::huggingface::Weights(dump.model), team);
  EXPECT_TRUE(std::ranges::none_of(step.items(), [](const Item& item) { return item.kind >= Kind::slot; }));
  ASSERT_FALSE(step.not_judged().empty());
  EXPECT_NE(step.not_judged().front().find("not known: learning_rate"), std::string::npos) << step.not_judged().front();
}

}  // namespace
}  // namespace lockstep::lab::against
