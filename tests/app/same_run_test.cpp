// What a resume does with each setting.

#include "app/start/same_run.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "app/cli/commit.h"
#include "app/settings/idle.h"
#include "app/settings/keys.h"
#include "app/train_command.h"
#include "arch/config_json.h"
#include "ops/cpu/options.h"

namespace lockstep::app {
namespace {

using settings::Key;
using settings::OnResume;

RunIdentity identity(RunConfig config) {
  return {
      .config = std::move(config), .vocabulary = 65, .global_batch = 12, .isa = "avx2", .data = Json::Object{{"train.bin", "a"}}};
}

checkpoint::Manifest manifest_of(const RunIdentity& run) {
  checkpoint::Manifest manifest;
  manifest.step = 40;
  manifest.global_batch = run.global_batch;
  manifest.model = arch::to_json(model_config(run.config, run.vocabulary));
  manifest.run = identity_json(run, {}, nullptr);
  manifest.run.set("config", to_json(run.config));
  return manifest;
}

// Settings under which every key of the table means something.
RunConfig base_for(const Key& key) {
  RunConfig config;
  config.train.backend = BackendKind::ps;
  const bool waits = key.name == "parallel.ps" || key.name == "train.backend";
  config.parallel.ps = waits ? train::ServerMode::gradients : train::ServerMode::async;
  config.model.position = arch::PositionKind::rope;
  config.model.rope_scaling = key.name == "model.rope_attention_factor" ? arch::RopeScaling::yarn : arch::RopeScaling::llama3;
  config.data.order = data::Order::partition;    // which train.max_epochs wants
  config.numerics.bf16 = ops::Bf16Order::pairs;  // never automatic in a run
  return config;
}

Json another_value(const Key& key, const Json& value) {
  if (key.type == settings::Type::boolean) return value.is_null() || !value.boolean();
  if (key.type == settings::Type::text) {
    for (const std::string_view word : key.rule.words) {
      const bool same_type = key.name == "train.dtype" && word == "fp32";  // another name of float32
      if (!same_type && (!value.is_string() || word != value.string())) return word;
    }
    if (!key.rule.words.empty()) return value;  // a key of one word cannot change
    for (const char* text : {"another", "epochs:2", "4GiB", "2,2", "full", "1x2", "q,v"}) {
      if (key.rule.readable == nullptr || key.rule.readable(text)) return text;
    }
  }
  const std::int64_t unlike_others = key.rule.bounded && key.rule.high < 96 ? static_cast<std::int64_t>(key.rule.high) : 96;
  if (key.type == settings::Type::integer) return value.is_null() ? Json(unlike_others) : Json(value.integer() + 1);
  return value.is_null() ? Json(0.5) : Json(value.number() > 1 ? value.number() + 1 : value.number() / 2 + 0.1);
}

std::size_t problems_that_name(const Comparison& compared, std::string_view name) {
  return static_cast<std::size_t>(std::ranges::count_if(
      compared.problems, [&](const Problem& problem) { return problem.message.starts_with(std::string(name) + " = "); }));
}

TEST(SameRun, WhatFollowsFromASettingIsNotNamedBesideIt) {
  const RunIdentity was = identity({});
  RunIdentity is = was;
  is.config.model.n_head = 4;  // head size and key/value heads follow
  const Comparison compared = compare_runs(is, manifest_of(was), "run");
  ASSERT_EQ(compared.problems.size(), 1U);
  EXPECT_TRUE(compared.problems[0].message.starts_with("model.n_head = 4"));

  RunIdentity another_tokenizer = was;  // nothing but what follows differs
  another_tokenizer.vocabulary = 66;
  const Comparison by_text = compare_runs(another_tokenizer, manifest_of(was), "run");
  ASSERT_EQ(by_text.problems.size(), 1U);
  EXPECT_TRUE(by_text.problems[0].message.starts_with("model.vocab_size = 66"));
}

TEST(SameRun, EverySettingSameOrChangedDoesWhatItsMarkSays) {
  for (const Key& key : settings::keys()) {
    const RunConfig was = base_for(key);
    const checkpoint::Manifest manifest = manifest_of(identity(was));
    const Comparison same = compare_runs(identity(was), manifest, "run");
    EXPECT_TRUE(same.problems.empty() && same.changes.empty() && same.unknown.empty()) << key.name;

    RunConfig is = was;
    const Json value = another_value(key, key.get(was));
    ASSERT_FALSE(settings::assign(is, key, value)) << key.name << " " << value.dump();
    const Comparison changed = compare_runs(identity(is), manifest, "run");
    const bool differs = key.get(is).dump() != key.get(was).dump();
    const auto idle = [&](const RunConfig& config) { return !settings::idle_reason(key, {config}).empty(); };
    const bool refused = differs && key.on_resume == OnResume::must_equal && !(idle(was) && idle(is));
    EXPECT_EQ(problems_that_name(changed, key.name), refused ? 1U : 0U) << key.name;
    const auto named = [&](const Change& change) { return change.setting == key.name && change.step == 40; };
    EXPECT_EQ(std::ranges::count_if(changed.changes, named), differs && key.on_resume == OnResume::changes_learning ? 1 : 0)
        << key.name;
    if (key.on_resume == OnResume::may_change) {
      EXPECT_TRUE(changed.problems.empty() && changed.changes.empty()) << key.name;
    }
  }
}

TEST(SameRun, WhatChangesNothingMayDiffer) {
  RunConfig was, is;
  is.adapter.alpha = 3;
  is.model.rope_theta = 5;
  EXPECT_TRUE(compare_runs(identity(is), manifest_of(identity(was)), "run").problems.empty());
  for (RunConfig* config : {&was, &is}) config->model.position = arch::PositionKind::rope;
  EXPECT_EQ(compare_runs(identity(is), manifest_of(identity(was)), "run").problems.size(), 1U);
}

TEST(SameRun, TwoWaysToSayTheSameAreEqual) {
  RunConfig was, is;
  is.train.seed = 1337;
  is.train.dtype = {DType::f32, true};
  is.model.vocab_size = 65;
  is.model.n_kv_head = 12;
  is.model.head_dim = 64;
  is.model.ffn_width = 3072;
  is.model.qkv_bias = false;
  is.train.backend = BackendKind::ps;
  is.parallel.ps = train::ServerMode::gradients;
  const Comparison compared = compare_runs(identity(is), manifest_of(identity(was)), "run");
  EXPECT_TRUE(compared.problems.empty() && compared.changes.empty());
}

TEST(SameRun, ARefusalNamesBothValuesAndTellsAllAtOnce) {
  RunConfig was, is;
  is.train.seed = 7;
  is.model.n_head = 6;
  const Comparison compared = compare_runs(identity(is), manifest_of(identity(was)), "runs/a/checkpoints/step_40");
  ASSERT_GE(compared.problems.size(), 2U);
  EXPECT_EQ(compared.problems[0].message, "train.seed = 7: the run of runs/a/checkpoints/step_40 has 1337");
  EXPECT_NE(compared.problems[0].remedy.find("resume with train.seed=1337"), std::string::npos);
}

TEST(SameRun, EpochsThatMakeAnotherOrderAreTakenBackWithIt) {
  const RunIdentity was = identity({});
  RunIdentity is = was;
  is.config.train.max_epochs = 1;
  const Comparison compared = compare_runs(is, manifest_of(was), "run");
  ASSERT_EQ(compared.problems.size(), 1U);
  EXPECT_EQ(compared.problems[0].message, "data.order = partition: the run of run has random");
  EXPECT_TRUE(compared.problems[0].remedy.starts_with("resume with train.max_epochs=null data.order=random; "))
      << compared.problems[0].remedy;
}

TEST(SameRun, AnotherTextIsRefused) {
  const RunIdentity was = identity({});
  RunIdentity is = was;
  is.data = Json::Object{{"train.bin", "b"}, {"train.mask.bin", "c"}};
  const Comparison compared = compare_runs(is, manifest_of(was), "run");
  ASSERT_EQ(compared.problems.size(), 2U);
  EXPECT_NE(compared.problems[0].message.find("train.bin is another text (SHA-256 b...)"), std::string::npos);
  EXPECT_NE(compared.problems[1].message.find("(none...)"), std::string::npos);
}

TEST(SameRun, WhatFollowsFromSeveralSettingsIsComparedToo) {
  RunConfig cosine;
  cosine.optimizer.schedule = train::LrSchedule::Kind::cosine;
  RunIdentity was = identity(cosine), is = was;
  is.config.train.max_iters += 1;
  is.global_batch = 24;
  is.isa = "baseline";
  const Comparison compared = compare_runs(is, manifest_of(was), "run");
  std::vector<std::string> changed;
  for (const Change& change : compared.changes) changed.push_back(change.setting);
  EXPECT_EQ(changed, (std::vector<std::string>{"global batch", "train.max_iters", "numerics.isa"}));
  is = was;
  is.isa = "avx512_bf16";
  EXPECT_TRUE(compare_runs(is, manifest_of(was), "run").changes.empty());
}

TEST(SameRun, AnotherOrderOfBf16ProductsIsRefused) {
  RunConfig narrow;
  narrow.train.dtype = {DType::bf16, false};
  RunIdentity was = identity(narrow), is = was;
  was.config.numerics.bf16 = ops::Bf16Order::widened;
  is.config.numerics.bf16 = ops::Bf16Order::pairs;
  const Comparison compared = compare_runs(is, manifest_of(was), "run");
  ASSERT_EQ(compared.problems.size(), 1U);
  EXPECT_EQ(compared.problems[0].message, "numerics.bf16 = pairs: the run of run has widened");
}

TEST(SameRun, CheckpointsSayHowTheirBf16ProductsAdd) {
  RunIdentity run = identity({});
  run.config.numerics.bf16 = ops::Bf16Order::pairs;
  EXPECT_EQ(stored_bf16_order(manifest_of(run)), ops::Bf16Order::pairs);
  // Older ones say it by their instruction set.
  checkpoint::Manifest manifest;
  EXPECT_FALSE(stored_bf16_order(manifest));
  manifest.run = Json::Object{{"isa", "avx512_bf16"}};
  EXPECT_EQ(stored_bf16_order(manifest), ops::Bf16Order::pairs);
  manifest.run = Json::Object{{"isa", "avx2"}};
  EXPECT_EQ(stored_bf16_order(manifest), ops::Bf16Order::widened);
}

TEST(SameRun, OlderCheckpointsAreComparedAsFarAsTheyGo) {
  const RunIdentity run = identity({});
  checkpoint::Manifest manifest = manifest_of(run);
  manifest.run = Json::Object{{"config", Json::Object{{"train", Json::Object{{"seed", 3}, {"gone", 1}}}}}};
  const Comparison compared = compare_runs(run, manifest, "run");
  EXPECT_EQ(compared.problems.size(), 1U);
  EXPECT_EQ(compared.unknown, std::vector<std::string>{"which text it was trained on"});
  manifest.run = nullptr;
  EXPECT_EQ(compare_runs(run, manifest, "run").unknown.size(), 2U);
}

TEST(SameRun, DocsHaveTheTableOfMarks) {
  const std::string docs = io::read_file("docs/checkpoint-format.md");
  EXPECT_NE(docs.find(resume_table()), std::string::npos) << "docs/checkpoint-format.md should have:\n" << resume_table();
}

class SameRunCommand : public TrainCommand {
 protected:
  Outcome resume(std::vector<std::string> more) const {
    more.insert(more.begin(), {"train", "log.dir=" + (folder_ / "a").string(), "train.init_from=resume"});
    return lockstep(more);
  }
  Json stored(int step) const {
    return Json::parse(file("a/checkpoints/step_" + std::to_string(step) + "/manifest.json")).at("run");
  }
};

TEST_F(SameRunCommand, AnotherModelSeedOrTextIsRefusedAtOnce) {
  ASSERT_EQ(lockstep(words("a", {"train.max_iters=4"})).code, 0);
  std::string text = file("text.txt");
  std::ranges::reverse(text);
  io::replace_file(folder_ / "reversed.txt", text);
  ASSERT_EQ(lockstep({"prepare", folder_ / "reversed.txt", "--tokenizer", "char", "--out", folder_ / "other"}).code, 0);
  for (const char* ranks : {"1", "2"}) {
    const Outcome outcome = resume({"--ranks", ranks, "model.batch_size=2", "model.n_head=1", "model.activation=relu",
                                    "train.seed=3", "model.norm_eps=0.1", "data.dir=" + (folder_ / "other").string()});
    EXPECT_EQ(outcome.code, 2);
    for (const char* said : {"model.n_head = 1", "has 2", "model.activation = relu", "train.seed = 3", "has 1337",
                             "model.norm_eps", "train.bin is another text"}) {
      EXPECT_NE(outcome.err.find(said), std::string::npos) << said << " in " << outcome.err;
    }
  }
}

TEST(SameRun, AnotherProgramIsToldNotRefused) {
  RunIdentity before = identity({}), now = identity({});
  EXPECT_EQ(compare_runs(now, manifest_of(before), "a").other_program, "");
  before.program = "lockstep 0.1.0 (commit a)";
  now.program = "lockstep 0.1.0 (commit b)";
  const Comparison compared = compare_runs(now, manifest_of(before), "a");
  EXPECT_EQ(compared.other_program, before.program);
  EXPECT_TRUE(compared.problems.empty() && compared.changes.empty());
  checkpoint::Manifest silent = manifest_of(before);  // an older version wrote it
  silent.run = Json::Object{{"isa", "avx2"}};
  EXPECT_EQ(compare_runs(now, silent, "a").other_program, "");
}

TEST_F(SameRunCommand, AnotherProgramIsSaidInOneLine) {
  ASSERT_EQ(lockstep(words("a", {"train.max_iters=4"})).code, 0);
  EXPECT_EQ(stored(4).at("program").string(), program_version());
  const std::string told = "The checkpoint was written by lockstep 0.0.9 (commit unknown); this is " + program_version();
  EXPECT_EQ(resume({}).out.find("The checkpoint was written by"), std::string::npos);
  const io::Path path = folder_ / "a/checkpoints/step_4/manifest.json";
  checkpoint::Manifest manifest = checkpoint::parse_manifest(io::read_file(path), "m");
  manifest.run.set("program", "lockstep 0.0.9 (commit unknown)");
  io::replace_file(path, checkpoint::manifest_text(manifest));
  const Outcome outcome = resume({"train.max_iters=5"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_NE(outcome.out.find(told), std::string::npos) << outcome.out;
}

TEST_F(SameRunCommand, WhatIsLearnedOtherwiseIsWarnedOfAndRecorded) {
  ASSERT_EQ(lockstep(words("a", {"train.max_iters=4"})).code, 0);
  EXPECT_TRUE(stored(4).at("changes").array().empty());
  EXPECT_EQ(stored(4).at("data").at("train.bin").string().size(), 64U);
  const Outcome first = resume({"train.max_iters=6", "optimizer.learning_rate=0.001"});
  ASSERT_EQ(first.code, 0) << first.err;
  EXPECT_NE(first.out.find("optimizer.learning_rate = 0.001 from step 4 on, it was 0.0006"), std::string::npos) << first.out;
  const Outcome second = resume({"train.max_iters=8", "model.batch_size=8", "train.global_batch=new"});
  ASSERT_EQ(second.code, 0) << second.err;
  EXPECT_NE(second.out.find("global batch = 8 from step 6 on, it was 4"), std::string::npos) << second.out;
  const Json changes = stored(8).at("changes");
  ASSERT_EQ(changes.array().size(), 2U);
  EXPECT_EQ(changes.array()[0].at("setting").string(), "optimizer.learning_rate");
  EXPECT_EQ(changes.array()[0].at("was").number(), 6e-4);
  EXPECT_EQ(changes.array()[1].at("step").integer(), 6);
}

TEST_F(SameRunCommand, AnOlderCheckpointGoesOnWithAWarning) {
  ASSERT_EQ(lockstep(words("a", {"train.max_iters=4"})).code, 0);
  const std::string path = folder_ / "a/checkpoints/step_4/manifest.json";
  checkpoint::Manifest manifest = checkpoint::parse_manifest(io::read_file(path), path);
  Json older;
  for (const char* name : {"name", "config", "data_folder", "tokenizer"}) older.set(name, manifest.run.at(name));
  manifest.run = older;
  io::replace_file(path, checkpoint::manifest_text(manifest));
  const Outcome outcome = resume({"train.max_iters=6"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_NE(outcome.out.find("does not say which text it was trained on"), std::string::npos) << outcome.out;
}

TEST_F(SameRunCommand, TokensWithoutADescriptionHaveAFingerprintToo) {
  std::filesystem::remove(folder_ / "data/tokens.json");
  ASSERT_EQ(lockstep(words("a", {"train.max_iters=4", "model.vocab_size=64", "sample.tokens=0"})).code, 0);
  ASSERT_EQ(resume({"train.max_iters=6"}).code, 0);
  std::string tokens = file("data/train.bin");
  tokens[0] = static_cast<char>(tokens[0] == 1 ? 2 : 1);
  io::replace_file(folder_ / "data/train.bin", tokens);
  const Outcome outcome = resume({"train.max_iters=8"});
  EXPECT_EQ(outcome.code, 2);
  EXPECT_NE(outcome.err.find("train.bin is another text"), std::string::npos) << outcome.err;
}

TEST_F(SameRunCommand, WeightsOfACheckpointBringTheirShape) {
  ASSERT_EQ(lockstep(words("a", {"train.max_iters=2", "model.norm=rmsnorm", "model.tied=false"})).code, 0);
  const std::vector<std::string> start{"train",
                                       "data.dir=" + (folder_ / "data").string(),
                                       "log.dir=" + (folder_ / "b").string(),
                                       "train.init_from=" + (folder_ / "a").string(),
                                       "train.max_iters=2",
                                       "train.eval_iters=2",
                                       "model.batch_size=4"};
  std::vector<std::string> wrong = start;
  wrong.insert(wrong.end(), {"model.n_embd=32", "model.block_size=13"});
  const Outcome refused = lockstep(wrong);
  EXPECT_EQ(refused.code, 2);
  EXPECT_NE(refused.err.find("model.n_embd = 32: the model in"), std::string::npos) << refused.err;
  EXPECT_NE(refused.err.find("model.block_size=12"), std::string::npos) << refused.err;
  const Outcome outcome = lockstep(start);
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_NE(file("b/config.toml").find("n_layer = 2"), std::string::npos);
}

}  // namespace
}  // namespace lockstep::app
