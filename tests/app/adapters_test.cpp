// Adapters as a user types them: trained beside a model, resumed, taken out, merged, read beside it.

#include <gtest/gtest.h>

#include <algorithm>

#include "app/train_command.h"
#include "base/json.h"

namespace lockstep::app {
namespace {

class AdaptersCommand : public TrainCommand {
 protected:
  void SetUp() override {
    TrainCommand::SetUp();
    // A model to begin with, as others publish it.
    const Outcome trained = lockstep(words("base", {"model.norm=rmsnorm", "model.position=rope", "model.activation=swiglu",
                                                    "model.n_kv_head=1", "model.tied=false"}));
    ASSERT_EQ(trained.code, 0) << trained.err;
    ASSERT_EQ(lockstep({"convert", at("base"), at("model")}).code, 0);
  }
  std::string at(const std::string& name) const { return (folder_ / name).string(); }
  std::vector<std::string> tuned(const std::string& run, std::vector<std::string> more = {}) const {
    std::vector<std::string> all{"train",
                                 at("data"),
                                 "train.init_from=" + at("model"),
                                 "log.dir=" + at(run),
                                 "adapter.rank=3",
                                 "optimizer.learning_rate=0.01",
                                 "train.max_iters=6",
                                 "train.eval_interval=3",
                                 "train.eval_iters=2",
                                 "train.warmup_iters=0",
                                 "model.batch_size=4",
                                 "model.block_size=12",
                                 "sample.tokens=10",
                                 "train.threads=1"};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  std::string text_of(std::vector<std::string> more) const {
    std::vector<std::string> all{"generate", "--prompt", "the", "--tokens", "30", "--temperature", "0", "--color", "never"};
    all.insert(all.end(), more.begin(), more.end());
    const Outcome outcome = lockstep(all);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return outcome.out;
  }
};

TEST_F(AdaptersCommand, LearnAndSayWhatIsTrained) {
  const Outcome outcome = lockstep(tuned("a"));
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_NE(outcome.out.find("adapters of rank 3 beside all, scale 5.333"), std::string::npos) << outcome.out;
  const std::vector<double> seen = losses("a");
  EXPECT_LT(seen.back(), seen.front());
}

TEST_F(AdaptersCommand, BesideADrawnModelComeWithAWarning) {
  const Outcome outcome = lockstep(words("drawn", {"adapter.rank=2"}));
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_NE((outcome.out + outcome.err).find("adapter.rank = 2: the model beside the adapters is drawn and stays so"),
            std::string::npos);
}

/// Adapters alone, and with the token table and the head's matrix.
class AdaptersAndEnds : public AdaptersCommand, public testing::WithParamInterface<const char*> {
 protected:
  std::vector<std::string> tuned(const std::string& run, std::vector<std::string> more) const {
    more.push_back(std::string("adapter.whole=") + GetParam());
    return AdaptersCommand::tuned(run, more);
  }
};

TEST_P(AdaptersAndEnds, AResumedRunLearnsTheBitsOfAWholeOne) {
  const std::vector<std::string> alike{"train.dtype=bf16", "optimizer.decay_lr=false"};
  ASSERT_EQ(lockstep(tuned("whole", alike)).code, 0);
  ASSERT_EQ(lockstep(tuned("half", {alike[0], alike[1], "train.max_iters=3"})).code, 0);
  const Outcome resumed = lockstep({"train", "train.init_from=resume", "log.dir=" + at("half"), "train.max_iters=6"});
  ASSERT_EQ(resumed.code, 0) << resumed.err;
  for (const char* part : {"model", "optimizer"}) {
    const std::string name = std::string("/checkpoints/step_6/") + part + ".safetensors";
    EXPECT_TRUE(file("whole" + name) == file("half" + name)) << part;
  }
}

TEST_P(AdaptersAndEnds, AreReadBesideTheirModelAndMerged) {
  ASSERT_EQ(lockstep(tuned("a", {"adapter.targets=q,v,down", "train.max_iters=20"})).code, 0);
  const Outcome out = lockstep({"convert", at("a"), at("adapter")});
  ASSERT_EQ(out.code, 0) << out.err;
  EXPECT_NE(out.out.find("converted the adapters of "), std::string::npos) << out.out;
  ASSERT_EQ(lockstep({"convert", at("a"), at("merged"), "--merge"}).code, 0);
  ASSERT_EQ(lockstep({"convert", at("a"), at("merged.gguf"), "--merge"}).code, 0);
  const std::string text = text_of({at("a")});
  EXPECT_EQ(text_of({at("model"), "--adapter", at("adapter")}), text);
  EXPECT_EQ(text_of({at("base"), "--adapter", at("adapter")}), text);
  EXPECT_EQ(text_of({at("merged")}), text);
  EXPECT_NE(text_of({at("model")}), text);
}

INSTANTIATE_TEST_SUITE_P(Whole, AdaptersAndEnds, testing::Values("none", "both"), [](const auto& info) { return info.param; });

TEST_F(AdaptersCommand, GoOnFromAFolder) {
  ASSERT_EQ(lockstep(tuned("a", {"adapter.alpha=7", "adapter.rank_stabilised=true"})).code, 0);
  ASSERT_EQ(lockstep({"convert", at("a"), at("adapter")}).code, 0);
  const Outcome more = lockstep(tuned("b", {"adapter.rank=4", "adapter.init_from=" + at("adapter")}));
  EXPECT_EQ(more.code, 2);
  EXPECT_NE(more.err.find("adapter.rank = 4: the model in "), std::string::npos) << more.err;
  std::vector<std::string> words = tuned("b", {"adapter.init_from=" + at("adapter")});
  std::erase(words, "adapter.rank=3");
  const Outcome gone_on = lockstep(words);
  ASSERT_EQ(gone_on.code, 0) << gone_on.err;
  EXPECT_LT(losses("b").front(), losses("a").front());
  EXPECT_EQ((gone_on.out + gone_on.err).find("lora_dropout"), std::string::npos);
  Json config = Json::parse(file("adapter/adapter_config.json"));
  io::replace_file(folder_ / "adapter/adapter_config.json", config.set("lora_dropout", 0.05).dump());
  std::ranges::replace(words, "log.dir=" + at("b"), "log.dir=" + at("c"));
  const Outcome dropped = lockstep(words);
  ASSERT_EQ(dropped.code, 0) << dropped.err;
  EXPECT_NE((dropped.out + dropped.err).find("adapter_config.json: lora_dropout is 0.05, and training drops nothing"),
            std::string::npos)
      << dropped.out << dropped.err;
}

// PEFT's base_model_name_or_path, however often the run has gone on.
TEST_F(AdaptersCommand, AResumeKnowsTheModelThatTheRunBeganWith) {
  ASSERT_EQ(lockstep(tuned("a")).code, 0);
  ASSERT_EQ(lockstep({"convert", at("a"), at("adapter")}).code, 0);
  for (const char* steps : {"train.max_iters=7", "train.max_iters=8"}) {
    const Outcome again =
        lockstep({"train", "log.dir=" + at("a"), "train.init_from=resume", "adapter.init_from=" + at("adapter"), steps});
    ASSERT_EQ(again.code, 0) << again.err;
    EXPECT_NE((again.out + again.err).find("adapter.init_from = " + at("adapter") + ": a run that goes on has its adapter"),
              std::string::npos)
        << again.out << again.err;
  }
  const Outcome made = lockstep({"convert", at("a"), at("later")});
  ASSERT_EQ(made.code, 0) << made.err;
  EXPECT_NE(made.out.find("generate " + at("model") + " --adapter"), std::string::npos) << made.out;
  EXPECT_EQ(Json::parse(file("later/adapter_config.json")).at("base_model_name_or_path").string(), at("model"));
}

struct Refused {
  std::vector<std::string> words;
  std::string message;
};

TEST_F(AdaptersCommand, WhatCannotBeIsRefusedWithTheReason) {
  ASSERT_EQ(lockstep(tuned("a")).code, 0);
  ASSERT_EQ(lockstep({"convert", at("a"), at("adapter")}).code, 0);
  const std::vector<Refused> cases{
      {tuned("b", {"numerics.canonical=true"}), "adapters are not summed by the ranges that make sums canonical"},
      {tuned("b", {"memory.tiles=2x2"}), "a matrix with an adapter beside it is not cut"},
      {tuned("b", {"adapter.targets=c_attn"}), "adapter.targets = c_attn"},
      {tuned("b", {"adapter.rank=99"}), "above model.n_embd = 16"},
      {words("b", {"adapter.init_from=" + at("adapter")}), "the model beside it would start with drawn weights"},
      {{"convert", at("base"), at("x"), "--merge"}, "has no adapters"},
      {{"convert", at("a"), at("x.gguf")}, "has adapters, and a GGUF file has a whole model"},
      {{"convert", at("a"), at("x"), "--dtype", "bf16"}, "adapters are written in fp32"},
      {{"generate", at("a"), "--adapter", at("adapter")}, "has adapters already"},
      {{"generate", at("model"), "--adapter", at("data")}, "there is no adapter_config.json"},
      {tuned("b", {"train.init_from=" + at("a"), "adapter.init_from=" + at("adapter")}), "has adapters already"}};
  for (const auto& [words, message] : cases) {
    const Outcome outcome = lockstep(words);
    EXPECT_EQ(outcome.code, 2) << message;
    EXPECT_NE(outcome.err.find(message), std::string::npos) << message << "\n" << outcome.err;
  }
}

// A file that was damaged, or is another model's.
TEST_F(AdaptersCommand, FilesOfAnotherModelAreRefused) {
  ASSERT_EQ(lockstep(tuned("a")).code, 0);
  ASSERT_EQ(lockstep({"convert", at("a"), at("adapter")}).code, 0);
  const std::string config = file("adapter/adapter_config.json");
  const auto refused = [&](const std::string& message) {
    const Outcome outcome = lockstep({"generate", at("model"), "--adapter", at("adapter")});
    EXPECT_EQ(outcome.code, 2) << message;
    EXPECT_NE(outcome.err.find(message), std::string::npos) << outcome.err;
  };
  std::string other = config;
  other.replace(other.find("\"r\": 3"), 6, "\"r\": 4");
  io::replace_file(folder_ / "adapter/adapter_config.json", other);
  refused("but for this model it is [4, 16]");
  // As PEFT reads a text: a regular expression that matches all of a module's path.
  const auto rename = [&](const char* targets) {
    Json named = Json::parse(config);
    io::replace_file(folder_ / "adapter/adapter_config.json", named.set("target_modules", targets).dump());
  };
  for (const char* targets : {"^model\\.layers\\.\\d+\\.(?:self_attn|mlp)\\.q_proj$", "q_proj|k_proj", "(?!.*mlp).*_proj"}) {
    rename(targets);
    refused("and the weights are also of");
  }
  for (const char* targets : {".*_proj", "^.*\\.(?:[qkvo]|gate|up|down)_proj$", "all-linear", "(?P<name>.*)"}) {
    rename(targets);
    EXPECT_EQ(lockstep({"generate", at("model"), "--adapter", at("adapter"), "--tokens", "2"}).code, 0) << targets;
  }
  rename(".*\\.1\\..*_proj");
  refused("and the weights are also of");
  io::replace_file(folder_ / "adapter/adapter_config.json", "{");
  refused("adapter_config.json");
  io::replace_file(folder_ / "adapter/adapter_config.json", config);
  const std::string weights = file("adapter/adapter_model.safetensors");
  io::replace_file(folder_ / "adapter/adapter_model.safetensors", weights.substr(0, weights.size() - 4));
  refused("adapter_model.safetensors");
}

}  // namespace
}  // namespace lockstep::app
