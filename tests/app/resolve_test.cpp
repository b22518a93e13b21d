#include "app/start/resolve.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "app/settings/presets.h"
#include "io/file.h"
#include "support/temp_folder.h"

namespace lockstep::settings {
namespace {

using app::RunConfig;

RunConfig resolved(const std::vector<std::string>& overrides) { return resolve({{}, overrides}).config; }

// Every problem as "message -> remedy".
std::vector<std::string> problems(const std::vector<std::string>& overrides, const std::vector<std::string>& files = {}) {
  std::vector<std::string> found;
  try {
    resolve({files, overrides});
  } catch (const UserError& error) {
    for (const Problem& problem : error.problems()) found.push_back(problem.message + " -> " + problem.remedy);
  }
  return found;
}

using List = std::vector<std::string>;

// What `train` chooses counts where nothing says model or length.
TEST(Choice, GivesWayToEveryModelLengthRecipeAndResume) {
  const TempFolder folder;
  io::replace_file(folder / "recipe.toml", "[train]\nmax_iters = 7\n");
  io::replace_file(folder / "nano.py", "max_iters = 7\n");
  std::filesystem::create_directory(folder / "run");
  io::replace_file(folder / "run/config.toml", app::to_toml({}));
  const auto resolve_with = [&](const List& words, const List& files = {}, const List& nanogpt = {}) {
    return resolve(
        {.files = files, .overrides = words, .nanogpt = nanogpt, .choice = {"model.n_layer=3", "train.max_iters=200"}});
  };
  for (const List& open :
       std::vector<List>{{}, {"optimizer.learning_rate=1e-4"}, {"data.dir=x", "parallel.tp=2"}, {"data=owt"}}) {
    const Resolved found = resolve_with(open);
    EXPECT_TRUE(found.chosen);
    EXPECT_EQ(found.config.model.n_layer, 3);
    EXPECT_EQ(found.config.train.max_iters, 200);
  }
  EXPECT_TRUE(resolve_with({}).idle.empty());
  EXPECT_EQ(resolve_with({"optimizer.learning_rate=1e-4"}).config.optimizer.learning_rate, 1e-4);
  for (const List& closed : std::vector<List>{{"model.dropout=0.1"},
                                              {"model=gpt2"},
                                              {"max_iters=300"},
                                              {"train.max_epochs=1", "data.order=partition"},
                                              {"train=gpt2"},
                                              {"train.init_from=resume", "log.dir=" + (folder / "run").string()}}) {
    EXPECT_FALSE(resolve_with(closed).chosen) << closed[0];
  }
  EXPECT_FALSE(resolve_with({}, {folder / "recipe.toml"}).chosen);
  EXPECT_FALSE(resolve_with({}, {}, {folder / "nano.py"}).chosen);
  EXPECT_FALSE(resolve({.files = {}, .overrides = {}}).chosen);
}

class ConfigFile : public testing::Test {
 protected:
  std::string folder() const { return folder_.path(); }
  std::string write(std::string_view text, std::string_view name = "run.toml") {
    const std::string path = folder_ / name;
    io::replace_file(path, text);
    return path;
  }

 private:
  TempFolder folder_;
};

TEST(Resolve, NothingIsTheDefaults) { EXPECT_EQ(resolved({}), RunConfig()); }

TEST(Resolve, ValuesOfEveryType) {
  const RunConfig config = resolved({"train.compile=False", "train.max_iters=500", "optimizer.learning_rate=1",
                                     "optimizer.min_lr=1e-7", "train.seed=NULL", "sample.prompt=a=b c", "log.name=true",
                                     "train.device=cpu", "data.out_dir=null", "++train.port=80", "model.qkv_bias=true"});
  EXPECT_FALSE(config.train.compile);
  EXPECT_EQ(config.train.max_iters, 500);
  EXPECT_EQ(config.optimizer.learning_rate, 1.0);
  EXPECT_EQ(config.optimizer.min_lr, 1e-7);
  EXPECT_EQ(config.train.seed, std::nullopt);
  EXPECT_EQ(config.sample.prompt, "a=b c");
  EXPECT_EQ(config.log.name, "true");
  EXPECT_EQ(config.train.device, DeviceKind::cpu);
  EXPECT_EQ(config.data.out_dir, std::nullopt);
  EXPECT_EQ(config.train.port, 80);
  EXPECT_EQ(config.model.qkv_bias, true);
}

TEST(Resolve, ALaterSettingWinsAndBundlesComeFirst) {
  EXPECT_EQ(resolved({"train.max_iters=200", "train.max_iters=300"}).train.max_iters, 300);
  const RunConfig config = resolved({"model.n_layer=2", "model=gpt2_xl", "model=shakespeare"});
  EXPECT_EQ(config.model.n_layer, 2);
  EXPECT_EQ(config.model.n_embd, 384);
  EXPECT_EQ(config.model.dropout, 0.2);
}

TEST(Resolve, EveryBundleResolves) {
  for (const Preset& preset : presets()) {
    EXPECT_EQ(problems({preset.group + "=" + preset.option}), List{}) << preset.group << "=" << preset.option;
    EXPECT_EQ(problems({"+" + preset.group + "=" + preset.option}), List{});
  }
}

TEST(Resolve, BundlesSetTheirNumbers) {
  const RunConfig config = resolved({"+experiment=shakespeare"});
  EXPECT_EQ(config.model.n_layer, 6);
  EXPECT_EQ(config.model.block_size, 256);
  EXPECT_EQ(config.optimizer.learning_rate, 1e-3);
  EXPECT_EQ(config.optimizer.beta2, 0.99);
  EXPECT_EQ(config.optimizer.lr_decay_iters, 5000);
  EXPECT_EQ(config.optimizer.min_lr, 1e-4);
  EXPECT_EQ(resolved({"model=gpt2_xl"}).model.n_head, 25);
  EXPECT_EQ(resolved({"train=gpt2"}).train.eval_iters, 100);
  EXPECT_EQ(resolved({"train=owt"}).train.warmup_iters, 2000);
  EXPECT_EQ(resolved({"data=owt"}).data.dataset, "openwebtext");
  EXPECT_EQ(resolved({"model=default", "optimizer=default", "train=shakespeare", "data=shakespeare"}), RunConfig());
}

// Whatever was there before, a bundle leaves its own family.
TEST(Resolve, FamiliesDoNotMix) {
  EXPECT_EQ(resolved({"model=qwen2_0.5B", "model=llama3_8B"}).model, resolved({"model=llama3_8B"}).model);
  RunConfig config = resolved({"model=qwen2_0.5B", "model=default"});
  EXPECT_EQ(model_config(config, 65), model_config(RunConfig(), 65));
}

TEST(Resolve, ARandomSeedIsDrawnOnce) {
  const RunConfig config = resolved({"train.seed=random"});
  ASSERT_TRUE(config.train.seed.has_value());
  EXPECT_GE(*config.train.seed, 0);
  EXPECT_LT(*config.train.seed, std::int64_t{1} << 31);
}

TEST(Resolve, APeakMayBeADeviceOrItsClockFormula) {
  EXPECT_EQ(resolved({"train.peak_tflops=a100"}).train.peak_tflops, 312.0);
  EXPECT_EQ(resolved({"train.peak_tflops=H100:tf32"}).train.peak_tflops, 494.5);
  EXPECT_NEAR(*resolved({"train.peak_tflops=1410x256x432"}).train.peak_tflops, 311.87, 0.005);
  EXPECT_EQ(resolved({"train.peak_tflops=0.25"}).train.peak_tflops, 0.25);
  EXPECT_FALSE(resolved({"train.peak_tflops=null"}).train.peak_tflops.has_value());
  for (const char* wrong : {"a101", "0", "1410x256", "1410x0x432", "1410x256x432x2", "x"}) {
    const List found = problems({fmt::format("train.peak_tflops={}", wrong)});
    ASSERT_EQ(found.size(), 1U) << wrong;
    EXPECT_TRUE(found[0].starts_with(fmt::format("train.peak_tflops = {}: must be a number above 0, or v100, a100, ", wrong)))
        << found[0];
  }
}

TEST(Resolve, MpiReadsInTheRanksOwnThread) {
  EXPECT_EQ(problems({"data.workers=2", "data.io=mpi"}),
            List{"data.workers = 2: with data.io = mpi a rank's own thread reads -> data.workers=1, or data.io=files"});
  EXPECT_EQ(problems({"data.workers=1", "data.io=mpi"}), List{});
  EXPECT_EQ(problems({"data.workers=65"}).size(), 1U);
}

TEST(Resolve, ShortRunsLogMoreOften) {
  const Resolved result = resolve({{}, {"train.max_iters=60"}});
  EXPECT_EQ(result.config.train.log_interval, 3);
  EXPECT_EQ(result.warnings.size(), 2U);  // the warm-up, by default 100, is longer than the run
  EXPECT_EQ(resolve({{}, {"train.max_iters=5", "train.warmup_iters=0"}}).config.train.log_interval, 1);
}

TEST(Resolve, ADecayOfNoIterationIsSaid) {
  const List wsd{"optimizer.schedule=wsd", "train.max_iters=9", "train.warmup_iters=0", "train.log_interval=1"};
  const auto warnings = [&](const std::string& more) {
    List words = wsd;
    words.push_back(more);
    return resolve({{}, words}).warnings;
  };
  EXPECT_EQ(warnings("train.seed=1"),
            List{"optimizer.wsd_decay = 0.1 of train.max_iters = 9 is no whole iteration: the learning rate never falls"});
  for (const char* more : {"optimizer.wsd_decay=0", "optimizer.wsd_decay=0.2", "optimizer.decay_lr=false"})
    EXPECT_EQ(warnings(more), List{}) << more;
}

TEST(Resolve, AllProblemsAtOnce) {
  EXPECT_EQ(
      problems({"train.max_iter=5", "model.n_layer=many", "model.n_head=5", "optimizer.beta1=1", "dpo.label_smoothing=0.5",
                "optimizer.beta2=nan", "optimizer.eps=1e300", "model=gpt3", "nonsense"}),
      (List{"'nonsense' is no setting -> write group.key=value or group=option",
            "model=gpt3: there is no such option -> choose one of rasbt, gpt3_175B, default, shakespeare, gpt2, gpt2_medium, "
            "gpt2_large, gpt2_xl, llama2B, llama7B, llama3_8B, llama3_1B, llama3_3B, llama3_70B, llama3_405B, mistral_7B, "
            "qwen2_7B, qwen2_0.5B, qwen3_0.6B, qwen3_4B, qwen3_8B, qwen3_32B, gemma3_270M, gemma3_1B",
            "unknown setting train.max_iter -> did you mean train.max_iters?",
            "model.n_layer = many: must be an integer of at least 1 and at most 10000 -> the default is 12",
            "optimizer.beta1 = 1: must be a number of at least 0 and below 1 -> the default is 0.9",
            "dpo.label_smoothing = 0.5: must be a number of at least 0 and below 0.5 -> the default is 0.0",
            "optimizer.beta2 = nan: must be a number of at least 0 and below 1 -> the default is 0.95",
            "optimizer.eps = 1e300: must be a number above 0, at most 1000000000000000 -> the default is 1e-08",
            "model.n_head = 5 does not divide model.n_embd = 768 -> choose a width that is a multiple of 5, another number of "
            "heads, or set model.head_dim"}));
}

TEST(Resolve, NothingIsSaidOfTheDefaultInPlaceOfARefusedValue) {
  EXPECT_EQ(problems({"train.warmup_iters=-1", "train.max_iters=1"}),
            List{"train.warmup_iters = -1: must be an integer of at least 0 -> the default is 100"});
  EXPECT_EQ(problems({"model.n_head=-1", "model.n_embd=10"}),
            List{"model.n_head = -1: must be an integer of at least 1 and at most 10000 -> the default is 12"});
}

TEST(Resolve, ASettingThatIsNotUtf8IsRefused) {
  EXPECT_EQ(
      problems({"sample.prompt=to b\xFF"}),
      List{"'sample.prompt=to b...': byte 18 is not UTF-8, and a run keeps its settings as text -> write the setting in UTF-8"});
  EXPECT_EQ(problems({"sample.prompt=\u00FCber"}), List{});
}

// `train a=b.txt`.
TEST(Resolve, AFileWithTheNameOfAnUnknownSettingIsToldApart) {
  const TempFolder folder;
  const std::filesystem::path before = std::filesystem::current_path();
  std::filesystem::current_path(folder.path());
  for (const char* name : {"a=b.txt", "model.x=1", "max_iters=5"}) io::replace_file(name, "text");
  EXPECT_EQ(problems({"a=b.txt", "model.x=1"}),
            (List{"'a=b.txt' is read as a setting, and a file has this name -> write ./a=b.txt",
                  "'model.x=1' is read as a setting, and a file has this name -> write ./model.x=1"}));
  EXPECT_EQ(resolved({"max_iters=5"}).train.max_iters, 5) << "a setting that there is stays one";
  std::filesystem::current_path(before);
}

TEST(Resolve, UnknownNames) {
  EXPECT_EQ(problems({"optimizer.max_iters=5"}), List{"unknown setting optimizer.max_iters -> did you mean train.max_iters?"});
  EXPECT_EQ(problems({"optimizer.lr=5"}), List{"unknown setting optimizer.lr -> here it is optimizer.learning_rate"});
  EXPECT_EQ(problems({"model.layers=5"}), List{"unknown setting model.layers -> here it is model.n_layer"});
  EXPECT_EQ(problems({"training.steps=5"}), List{"unknown setting training.steps -> here it is train.max_iters"});
  EXPECT_EQ(problems({"lr=5"}), List{"unknown setting lr -> here it is optimizer.learning_rate=5"});
  EXPECT_EQ(problems({"epochs=5"}), List{"unknown setting epochs -> here it is train.max_epochs=5"});
  EXPECT_EQ(problems({"optimizer.wsd=5"}), List{"unknown setting optimizer.wsd -> did you mean optimizer.wsd_decay?"});
  EXPECT_EQ(problems({"train.max_iters=1e-3"}),
            List{"train.max_iters = 1e-3: must be an integer of at least 1 -> the default is 10000"});
  EXPECT_EQ(problems({"optimizer.learning_rate=1e999"}),
            List{"optimizer.learning_rate = 1e999: must be a number of at least 0 -> the default is 0.0006"});
  EXPECT_EQ(problems({"train.max_iters="}),
            List{"train.max_iters has no value: must be an integer of at least 1 -> the default is 10000"});
  EXPECT_EQ(problems({"train="}).at(0).find("train has no value -> choose one of "), 0U);
  EXPECT_EQ(problems({"max_itres=5"}), List{"unknown group max_itres -> did you mean train.max_iters=5?"});
  EXPECT_EQ(problems({"dta=shakespeare"}), List{"unknown group dta -> did you mean data=shakespeare?"});
  EXPECT_EQ(problems({"qqqqqqqqqqqq=1"}),
            List{"unknown group qqqqqqqqqqqq -> bundles are train=, data=, model=, optimizer= and experiment="});
  EXPECT_EQ(problems({"q.zzzzzzzzzzzzzzzzzzzzzzzzz=1"}),
            List{"unknown setting q.zzzzzzzzzzzzzzzzzzzzzzzzz -> lockstep help config lists them"});
  EXPECT_EQ(problems({"=5", "+=5"}).size(), 2U);
}

TEST(Resolve, WrongTypesAndRanges) {
  for (const char* wrong : {"train.max_iters=1.5",
                            "train.max_iters=0",
                            "train.max_iters=null",
                            "train.max_iters=",
                            "train.max_iters=99999999999999999999",
                            "train.compile=1",
                            "train.compile=yes",
                            "optimizer.learning_rate=-1",
                            "optimizer.learning_rate=nan",
                            "optimizer.learning_rate=inf",
                            "optimizer.learning_rate=fast",
                            "model.dropout=1",
                            "sample.temperature=-0.1",
                            "log.style=book",
                            "sample.top_p=1.5",
                            "train.seed=-1",
                            "train.seed=lucky",
                            "train.seed=1.0",
                            "train.threads=0",
                            "data.dir=",
                            "train.dtype=fp16",
                            "train.device=tpu",
                            "model.activation=tanh",
                            "model.norm=batchnorm",
                            "model.norm_eps=0",
                            "model.position=alibi",
                            "model.n_kv_head=0",
                            "model.head_dim=257",
                            "model.rope_theta=1",
                            "model.rope_scaling=ntk",
                            "optimizer.name=SGD",
                            "numerics.isa=sse",
                            "model.n_embd=1.5e0"}) {
    EXPECT_EQ(problems({wrong}).size(), 1U) << wrong;
  }
  EXPECT_EQ(problems({"model.activation=gelu_tan"}), List{"model.activation = gelu_tan: must be one of gelu, gelu_tanh, relu, "
                                                          "silu, swiglu, geglu -> did you mean model.activation=gelu_tanh?"});
}

TEST(Resolve, SettingsThatDoNotFitTogether) {
  for (const List& wrong : {List{"train.max_iters=50", "train.warmup_iters=60"}, List{"optimizer.learning_rate=1e-6"},
                            List{"train.dump_step=10", "train.max_iters=10", "train.warmup_iters=0"},
                            List{"train.init_from=resume"}, List{"data.dir=a", "data.file=b"}, List{"model.n_head=1"},
                            List{"model.n_kv_head=5"}, List{"model.head_dim=33", "model.position=rope"}, List{"model.n_head=5"},
                            List{"model.position=rope", "model.rope_scaling=llama3", "model.rope_low_freq_factor=4"}}) {
    EXPECT_EQ(problems(wrong).size(), 1U) << wrong[0];
  }
}

TEST_F(ConfigFile, FilesComeBeforeBundlesAndSettings) {
  const std::string file = write("[model]\nn_layer = 3\nn_head = 4\n[optimizer]\nlearning_rate = 1\ndecay_lr = false\n");
  const RunConfig config = resolve({{file}, {"model.n_head=8"}}).config;
  EXPECT_EQ(config.model.n_layer, 3);
  EXPECT_EQ(config.model.n_head, 8);
  EXPECT_EQ(config.optimizer.learning_rate, 1.0);
  EXPECT_EQ(resolve({{file}, {"model=shakespeare"}}).config.model.n_layer, 6);
}

TEST_F(ConfigFile, ProblemsNameFileAndLine) {
  const std::string file = write(
      "seeed = 3\n"
      "max_iters = 3\n"
      "train = 4\n"
      "[modle]\n"
      "n_layer = 3\n"
      "[zzzzzzzzzzz]\n"
      "[model]\n"
      "n_layer = \"many\"\n"
      "n_embed = 3\n"
      "bias = [true]\n");
  const List found = problems({}, {file});
  EXPECT_EQ(found.size(), 8U);
  const auto has = [&](const std::string& text) {
    return std::count_if(found.begin(), found.end(), [&](const std::string& one) { return one == file + ":" + text; });
  };
  EXPECT_EQ(has("1: seeed stands in no group -> did you mean train.seed?"), 1);
  EXPECT_EQ(has("2: max_iters stands in no group -> did you mean train.max_iters?"), 1);
  EXPECT_EQ(has("3: train stands in no group -> write it as a table: [train]"), 1);
  EXPECT_EQ(has("4: unknown group [modle] -> did you mean [model]?"), 1);
  EXPECT_EQ(has("6: unknown group [zzzzzzzzzzz] -> lockstep help config lists them"), 1);
  EXPECT_EQ(has("8: model.n_layer = \"many\": must be an integer of at least 1 and at most 10000 -> the default is 12"), 1);
  EXPECT_EQ(has("9: unknown setting model.n_embed -> did you mean model.n_embd?"), 1);
  EXPECT_EQ(has("10: model.bias is a list, table or date: must be true or false -> write one value"), 1);
}

TEST_F(ConfigFile, QuotesAroundANumberAreShown) {
  const std::string file = write("[train]\nseed = \"3\"\n[model]\nbias = \"true\"\n");
  const List found = problems({}, {file});
  ASSERT_EQ(found.size(), 2U);
  EXPECT_NE(found[0].find("train.seed = \"3\": must be an integer"), std::string::npos) << found[0];
  EXPECT_TRUE(found[0].ends_with(" -> 3 without the quotes")) << found[0];
  EXPECT_TRUE(found[1].ends_with("model.bias = \"true\": must be true or false -> true without the quotes")) << found[1];
}

TEST(Recipes, EveryRecipeOfThisRepositoryResolves) {
  if (!std::filesystem::is_directory("configs")) GTEST_SKIP() << "run from the source folder";
  for (const auto& entry : std::filesystem::directory_iterator("configs")) {
    if (entry.path().extension() == ".toml") {
      EXPECT_EQ(problems({}, {entry.path().string()}), List{});
      EXPECT_NE(resolve({{entry.path().string()}, {}}).config, RunConfig()) << entry.path();
    }
  }
}

TEST_F(ConfigFile, SyntaxErrorsAndMissingFiles) {
  const std::string file = write("[model]\nn_layer = = 3\n");
  EXPECT_EQ(problems({}, {file}).at(0).rfind(file + ":2: ", 0), 0U);
  EXPECT_NE(problems({}, {"/no/such.toml"}).at(0).find("/no/such.toml"), std::string::npos);
  EXPECT_EQ(problems({"q.x=1"}, {"/no/such.toml", "/no/other.toml"}).size(), 3U);
  EXPECT_EQ(problems({}, {"/tmp"}).size(), 1U);
}

TEST_F(ConfigFile, AResumedRunKeepsItsSettings) {
  const List how = {"train.init_from=resume", "log.dir=" + folder()};
  EXPECT_EQ(resolved(how).model.n_layer, 12);  // nothing there to keep
  const RunConfig before = resolved({"model=shakespeare", "train.seed=5", "log.dir=" + folder(), "train.max_iters=700"});
  write(app::to_toml(before), "config.toml");
  Resolved result = resolve({{}, how});
  EXPECT_EQ(result.warnings.size(), 1U);
  EXPECT_EQ(result.config.train.init_from.kind, app::InitFrom::Kind::resume);
  result.config.train.init_from = {};
  EXPECT_EQ(result.config, before);
  const std::string file = write("[train]\nmax_iters = 800\n");
  const Resolved changed = resolve({{file}, {"train.init_from=resume", "log.dir=" + folder(), "model.dropout=0"}});
  EXPECT_EQ(changed.config.train.max_iters, 800);
  EXPECT_EQ(changed.config.model.dropout, 0);
  EXPECT_EQ(changed.config.model.n_layer, 6);
  EXPECT_EQ(problems({"train.init_from=resume", "log.dir=" + folder(), "nonsense", "q.x=1"}).size(), 2U);
  write("[train]\nmax_iters = 0\n", "config.toml");
  EXPECT_EQ(problems(how).size(), 1U);
}

TEST(Sources, DeclareTheirArguments) {
  Sources sources;
  app::CommandLine line("train", "Trains.");
  sources.declare(line);
  EXPECT_TRUE(line.parse({"--config", "a.toml", "data=owt", "train.seed=3", "--config", "b.toml"}));
  EXPECT_EQ(sources.files, (List{"a.toml", "b.toml"}));
  EXPECT_EQ(sources.overrides, (List{"data=owt", "train.seed=3"}));
}

}  // namespace
}  // namespace lockstep::settings
