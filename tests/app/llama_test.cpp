// The Llama family as a user types it: settings, presets, training on ranks, writing and evaluating.

#include <gtest/gtest.h>

#include <cmath>

#include "app/train_command.h"
#include "base/json.h"

namespace lockstep::app {
namespace {

std::vector<std::string> llama(std::vector<std::string> more = {}) {
  std::vector<std::string> all = {"model.norm=rmsnorm",   "model.position=rope", "model.activation=swiglu", "model.n_head=4",
                                  "model.n_kv_head=2",    "model.head_dim=6",    "model.ffn_width=24",      "model.tied=false",
                                  "model.rope_theta=500", "model.qkv_bias=true"};
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

class LlamaCommand : public TrainCommand {};

TEST_F(LlamaCommand, ThreadsChangeNoBit) {
  const char* model = "/checkpoints/step_8/model.safetensors";
  for (const char* tied : {"model.tied=true", "model.tied=false"}) {
    const std::string name = tied;
    ASSERT_EQ(lockstep(words("two" + name, llama({tied}))).code, 0);
    ASSERT_EQ(lockstep(words("one" + name, llama({tied, "train.threads=1"}))).code, 0);
    EXPECT_TRUE(file("one" + name + model) == file("two" + name + model));
  }
}

// With a tied head and rotary positions the unit of the embedding is empty.
TEST_F(LlamaCommand, RanksAndServersLearnWhatOneDoes) {
  for (const char* tied : {"model.tied=true", "model.tied=false"}) {
    const std::string name = tied;
    const Outcome one = lockstep(words("one" + name, llama({tied, "train.threads=1"})));
    ASSERT_EQ(one.code, 0) << one.err;
    std::vector<std::string> shared = words("two" + name, llama({tied, "train.threads=1", "model.batch_size=2"}));
    shared.insert(shared.begin() + 1, {"--ranks", "2"});
    const Outcome two = lockstep(shared);
    ASSERT_EQ(two.code, 0) << two.err;
    shared[2] = "3";
    shared.insert(shared.end(), {"train.backend=ps", "log.dir=" + (folder_ / ("served" + name)).string()});
    const Outcome served = lockstep(shared);
    ASSERT_EQ(served.code, 0) << served.err;
    const std::vector<double> alone = losses("one" + name);
    for (const std::string run : {"two", "served"}) {
      const std::vector<double> both = losses(run + name);
      ASSERT_EQ(alone.size(), both.size());
      for (std::size_t i = 0; i < alone.size(); ++i) EXPECT_NEAR(both[i], alone[i], 1e-5 * alone[i]) << run;
    }
  }
}

TEST_F(LlamaCommand, WritesIsEvaluatedAndTellsItsParts) {
  const Outcome trained = lockstep(words("model", llama({"model.rope_scaling=llama3", "log.style=wordplay"})));
  ASSERT_EQ(trained.code, 0) << trained.err;
  for (const char* text : {"RMSNorm()", "RoPE(theta=500, llama3 x8, original=8192)", "SiLU() * gate",
                           "(c_attn): Linear(in_features=16, out_features=48, bias=True)",
                           "(c_fc): Linear(in_features=16, out_features=48, bias=False)"}) {
    EXPECT_NE(trained.out.find(text), std::string::npos) << text;
  }
  EXPECT_EQ(trained.out.find("(wpe)"), std::string::npos);
  const std::string model = (folder_ / "model").string();
  const Outcome one = lockstep({"generate", "--model", model, "--prompt", "the lazy", "--tokens", "30"});
  ASSERT_EQ(one.code, 0) << one.err;
  EXPECT_EQ(one.out.rfind("the lazy", 0), 0U) << one.out;
  EXPECT_EQ(one.out, lockstep({"generate", "--model", model, "--prompt", "the lazy", "--tokens", "30"}).out);
  std::vector<double> seen;
  for (const char* threads : {"1", "2"}) {
    const Outcome whole = lockstep({"eval", "--model", model, "--threads", threads, "--json"});
    ASSERT_EQ(whole.code, 0) << whole.err;
    seen.push_back(Json::parse(whole.out).at("loss").number());
  }
  EXPECT_EQ(seen[0], seen[1]);
  EXPECT_LT(seen[0], std::log(65.0));
}

TEST_F(LlamaCommand, DryRunCountsPublishedModels) {
  const Outcome llama3 = lockstep({"train", "--dry-run", "model=llama3_8B", "data.root_path=/nowhere"});
  EXPECT_EQ(llama3.code, 0) << llama3.err;
  EXPECT_NE(llama3.out.find("num_params=8030261248"), std::string::npos) << llama3.out;
  EXPECT_NE(llama3.out.find("29.92 GiB"), std::string::npos) << llama3.out;
  const Outcome qwen2 = lockstep({"train", "--dry-run", "model=qwen2_0.5B", "data.root_path=/nowhere"});
  EXPECT_EQ(qwen2.code, 0) << qwen2.err;
  EXPECT_NE(qwen2.out.find("num_params=494032768"), std::string::npos) << qwen2.out;
}

TEST_F(LlamaCommand, ImpossibleOnesAreNamed) {
  const auto refused = [&](std::vector<std::string> more, const std::string& said) {
    const Outcome outcome = lockstep(words("refused", llama(std::move(more))));
    EXPECT_EQ(outcome.code, 2);
    EXPECT_NE(outcome.err.find(said), std::string::npos) << outcome.err;
  };
  refused({"model.n_kv_head=3"}, "model.n_kv_head = 3 does not divide model.n_head = 4");
  refused({"model.head_dim=5"}, "choose an even model.head_dim");
  refused({"model.head_dim=null", "model.n_head=3", "model.n_kv_head=3"}, "or set model.head_dim");
  refused({"model.rope_scaling=ntk"}, "one of none, linear, dynamic, llama3, yarn, longrope");
  refused({"model.position=rotary"}, "one of learned, rope");
  refused({"model.rope_scaling=llama3", "model.rope_high_freq_factor=1"}, "Llama 3.1 has 1 and 4");
  ASSERT_EQ(lockstep(words("gpt")).code, 0);
  refused({"train.init_from=" + (folder_ / "gpt").string()}, "model.norm = rmsnorm: the model in");
}

}  // namespace
}  // namespace lockstep::app
