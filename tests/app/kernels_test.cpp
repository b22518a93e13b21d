// The settings of group kernels: which of two ways kernels take, and what of it a run records.

#include <gtest/gtest.h>

#include <algorithm>

#include "app/settings/keys.h"
#include "app/settings/run_config.h"
#include "app/start/resolve.h"
#include "app/train_command.h"

namespace lockstep::app {
namespace {

using Words = std::vector<std::string>;

// What is wrong with the settings.
std::string kernels_complaint(const Words& overrides) {
  try {
    settings::resolve({.files = {}, .overrides = overrides});
  } catch (const UserError& error) {
    return error.what();
  }
  return "";
}

TEST(KernelSettings, WaysThatDoNotGoTogetherAreRefused) {
  const auto names = [](const Words& words, std::string_view rule) {
    const std::string text = kernels_complaint(words);
    EXPECT_NE(text.find(rule), std::string::npos) << text;
  };
  names({"kernels.mask=stored"}, "kernels.mask = stored: tiled attention computes which keys a query sees");
  names({"kernels.attention=materialised", "kernels.mask=stored", "data.documents=true"},
        "kernels.mask = stored: with data.documents = true every sample hides other keys");
  names({"kernels.attention=materialised", "parallel.cp=2"}, "with parallel.cp = 2 no rank has all keys of a query");
  names({"kernels.attention=materialised", "numerics.canonical=true"}, "kernels.attention = materialised: numerics.canonical");
  names({"kernels.products=plain", "numerics.canonical=true"}, "kernels.products = plain: numerics.canonical = true");
  names({"kernels.products=plain", "numerics.products=library"}, "kernels.products = plain: numerics.products = library");
  names({"kernels.products=plain", "numerics.bf16=pairs", "train.dtype=bf16"},
        "kernels.products = plain: plain products add as fp32 does");
  names({"kernels.adamw=tensor", "train.dtype=bf16", "optimizer.master_weights=false"}, "kernels.adamw = tensor: what it leaves");
  names({"kernels.adamw=tensor", "optimizer.moments=bf16"}, "kernels.adamw = tensor: what it leaves");
  names({"kernels.norm=slow"}, "kernels.norm");
  EXPECT_EQ(kernels_complaint({"kernels.adamw=tensor", "train.dtype=bf16"}), "");
  EXPECT_EQ(kernels_complaint({"kernels.products=plain", "numerics.bf16=pairs"}), "")
      << "a run of fp32 keeps its processor's order";
  EXPECT_EQ(kernels_complaint({"kernels.attention=materialised", "kernels.mask=stored"}), "");
}

TEST(KernelSettings, OnlyAnotherOrderOfAdditionsChangesWhatIsLearned) {
  for (const settings::Key& key : settings::keys()) {
    if (key.group() != "kernels") continue;
    const bool changes = key.name == "kernels.attention";
    EXPECT_EQ(key.on_resume, changes ? settings::OnResume::changes_learning : settings::OnResume::may_change) << key.name;
  }
}

class Kernels : public TrainCommand {
 protected:
  /// The losses of a run with these settings.
  std::vector<double> learnt(const std::string& run, const Words& more) const {
    const Outcome outcome = lockstep(words(run, more));
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return losses(run);
  }
};

const Words all_plain{"kernels.products=plain", "kernels.adamw=tensor", "kernels.norm=plain", "kernels.epilogues=false"};

TEST_F(Kernels, PlainWaysLearnTheSameBitsAndAreRecorded) {
  for (const std::string dtype : {"train.dtype=fp32", "train.dtype=bf16"}) {
    const Words base{dtype, "model.dropout=0.1", "numerics.bf16=widened"};
    const std::vector<double> expected = learnt("usual-" + dtype, base);
    ASSERT_FALSE(expected.empty());
    for (const std::string& word : all_plain) {
      Words more = base;
      more.push_back(word);
      EXPECT_EQ(learnt(word + dtype, more), expected) << word;
    }
    Words more = base;
    more.insert(more.end(), all_plain.begin(), all_plain.end());
    const Outcome outcome = lockstep(words("plain-" + dtype, more));
    EXPECT_EQ(losses("plain-" + dtype), expected);
    EXPECT_NE((outcome.out + outcome.err)
                  .find("Kernels: kernels.products=plain kernels.adamw=tensor kernels.norm=plain kernels.epilogues=false"),
              std::string::npos);
    EXPECT_NE(file("plain-" + dtype + "/config.json").find("\"products\": \"plain\""), std::string::npos);
    EXPECT_NE(file("plain-" + dtype + "/config.toml").find("norm = \"plain\""), std::string::npos);
  }
}

TEST_F(Kernels, MaterialisedAttentionLearnsNearlyTheSame) {
  for (const Words& base : {Words{"train.dtype=fp32"}, Words{"train.dtype=bf16", "model.n_kv_head=1"},
                            Words{"model.dropout=0.1", "memory.recompute=full"}}) {
    const std::string name = base.back();
    Words more = base;
    more.emplace_back("kernels.attention=materialised");
    const std::vector<double> expected = learnt("tiled" + name, base), whole = learnt("whole" + name, more);
    ASSERT_EQ(whole.size(), expected.size());
    for (std::size_t i = 0; i < whole.size(); ++i) EXPECT_NEAR(whole[i], expected[i], 5e-3 * expected[i]);
    more.emplace_back("kernels.mask=stored");
    EXPECT_EQ(learnt("masked" + name, more), whole);
  }
}

TEST_F(Kernels, MaterialisedAttentionHasOneResultWhateverIsMadeAgainOrDivided) {
  const Words whole{"kernels.attention=materialised", "optimizer.gas=2"};
  const std::vector<double> expected = learnt("whole", whole);
  for (const Words& how :
       {Words{"memory.recompute=full"}, Words{"train.threads=1"}, Words{"--ranks", "2", "parallel.pp=2", "train.threads=1"}}) {
    Words more = whole;
    more.insert(more.end(), how.begin(), how.end());
    EXPECT_EQ(learnt("again" + how.back() + std::to_string(how.size()), more), expected) << how.front();
  }
}

TEST_F(Kernels, AResumeMayChangePlainWaysAndIsWarnedOfAttention) {
  ASSERT_EQ(lockstep(words("run", {"train.max_iters=4", "kernels.norm=plain"})).code, 0);
  const Outcome same = lockstep(words("run", {"train.init_from=resume", "train.max_iters=6", "kernels.products=plain"}));
  EXPECT_EQ(same.code, 0) << same.err;
  EXPECT_EQ((same.out + same.err).find("this changes what the run learns"), (same.out + same.err).find("train.max_iters = 6"))
      << same.out;
  EXPECT_NE((same.out + same.err).find("Kernels: kernels.products=plain kernels.norm=plain"), std::string::npos) << same.out;
  const Outcome idle = lockstep(words("run", {"train.init_from=resume", "train.max_iters=6", "optimizer.momentum=0.5",
                                              "dpo.beta=0.5", "optimizer.schedule=linear", "optimizer.wsd_decay=0.5"}));
  const std::string said = idle.out + idle.err;
  EXPECT_NE(said.find("dpo.beta = 0.5: it is of train.objective=dpo alone"), std::string::npos) << said;
  EXPECT_NE(said.find("optimizer.schedule = linear from step"), std::string::npos) << said;
  for (const char* nothing : {"dpo.beta = 0.5 from", "momentum = 0.5 from", "wsd_decay = 0.5 from"})
    EXPECT_EQ(said.find(nothing), std::string::npos) << said;
  const Outcome other = lockstep(words("run", {"train.init_from=resume", "train.max_iters=6", "kernels.attention=materialised"}));
  EXPECT_EQ(other.code, 0) << other.err;
  EXPECT_NE((other.out + other.err).find("kernels.attention = materialised from step"), std::string::npos) << other.out;
}

}  // namespace
}  // namespace lockstep::app
