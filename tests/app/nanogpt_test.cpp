// nanoGPT's command line and configuration files, as `train` takes them.

#include "app/settings/foreign/nanogpt.h"

#include <gtest/gtest.h>

#include "app/start/resolve.h"
#include "app/train_command.h"

namespace lockstep::app {
namespace {

using Words = std::vector<std::string>;

class NanoGptSettings : public testing::Test {
 protected:
  std::string write(std::string_view text, std::string_view name = "train.py") const {
    io::replace_file(folder_ / name, text);
    return folder_ / name;
  }
  /// `words`: files and words of nanoGPT; `overrides` stand behind them.
  static settings::Resolved resolved(const Words& words, const Words& overrides = {}, std::int64_t ranks = 1) {
    settings::Sources sources{.files = {}, .overrides = {}, .nanogpt = {}, .ranks = ranks};
    for (const std::string& word : words) (word.starts_with("--") ? sources.overrides : sources.nanogpt).push_back(word);
    sources.overrides.insert(sources.overrides.end(), overrides.begin(), overrides.end());
    return settings::resolve(sources);
  }
  static Words problems(const Words& nanogpt, std::int64_t ranks = 1) {
    Words found;
    try {
      resolved(nanogpt, {}, ranks);
    } catch (const UserError& error) {
      for (const Problem& problem : error.problems()) found.push_back(problem.message + " -> " + problem.remedy);
    }
    return found;
  }
  TempFolder folder_;
};

// nanoGPT's config/train_shakespeare_char.py in its kinds of lines.
constexpr std::string_view kCharacters = R"(# train a miniature character-level shakespeare model
# good for debugging and playing on macbooks and such

out_dir = 'out-shakespeare-char'
eval_interval = 250 # keep frequent because we'll overfit
eval_iters = 200
log_interval = 10 # don't print too too often

always_save_checkpoint = False

wandb_log = False # override via command line if you like
wandb_project = "shakespeare-char"
wandb_run_name='mini-gpt # 1'

dataset = 'shakespeare_char'
gradient_accumulation_steps = 1
batch_size = 64
block_size = 256
n_layer = 6
n_head = 6
n_embd = 384
dropout = 0.2
learning_rate = 1e-3
max_iters = 5_000
lr_decay_iters = 5000
min_lr = 1e-4
beta2 = 0.99
warmup_iters = 100
# device = 'cpu'
compile = False
)";

TEST_F(NanoGptSettings, AFileAndItsNamesBecomeOurs) {
  const RunConfig config = resolved({write(kCharacters)}).config;
  EXPECT_EQ(config.log.dir, "out-shakespeare-char");
  EXPECT_EQ(config.log.name, "mini-gpt # 1");
  EXPECT_EQ(config.data.dataset, "shakespeare_char");
  EXPECT_EQ(config.model.n_embd, 384);
  EXPECT_EQ(config.model.dropout, 0.2);
  EXPECT_EQ(config.train.max_iters, 5000);
  EXPECT_EQ(config.train.log_interval, 10);
  EXPECT_EQ(config.optimizer.gas, 1);
  EXPECT_EQ(config.optimizer.learning_rate, 1e-3);
  EXPECT_FALSE(config.train.compile);
  EXPECT_EQ(config.train.wandb_project, "shakespeare-char");
}

TEST_F(NanoGptSettings, AFileBringsTheDefaultsOfTrainPy) {
  const RunConfig config = resolved({write("")}).config;
  EXPECT_EQ(config.train.max_iters, 600000);
  EXPECT_EQ(config.train.warmup_iters, 2000);
  EXPECT_EQ(config.train.eval_interval, 2000);
  EXPECT_EQ(config.train.log_interval, 1);
  EXPECT_EQ(config.optimizer.gas, 40);
  EXPECT_EQ(config.optimizer.schedule, train::LrSchedule::Kind::nanogpt);
  EXPECT_EQ(config.data.dataset, "openwebtext");
  EXPECT_EQ(config.log.dir, "out");
  EXPECT_EQ(config.train.dtype, app::SpeltDType{});
}

TEST_F(NanoGptSettings, WordsAloneSetNothingElse) {
  RunConfig expected;
  expected.train.max_iters = 500;
  expected.data.dataset = "7";
  expected.train.compile = false;
  expected.model.batch_size = 32;
  expected.log.wandb = app::WandbMode::offline;
  EXPECT_EQ(
      resolved({"--max_iters=500", "--dataset=7", "--compile=False", "--batch_size=32", "--backend=nccl", "--wandb_log=True"})
          .config,
      expected);
}

TEST_F(NanoGptSettings, TheLastTypedWordWinsInWhicheverGrammar) {
  const std::string file = write("max_iters = 300\nbatch_size = 3\n");
  const auto typed = [&](const Words& overrides) { return resolved({file}, overrides).config; };
  EXPECT_EQ(typed({"--max_iters=500"}).train.max_iters, 500);
  EXPECT_EQ(typed({"--batch_size=4", "model.batch_size=5"}).model.batch_size, 5);
  EXPECT_EQ(typed({"model.batch_size=5", "--batch_size=4"}).model.batch_size, 4);
  EXPECT_EQ(typed({"--out_dir=a", "log.dir=b", "--backend=nccl", "--out_dir=c"}).log.dir, "c");
  EXPECT_EQ(typed({"--n_layer=3", "model=gpt2"}).model.n_layer, 3) << "a bundle stands below typed words";
  EXPECT_EQ(typed({"--gradient_accumulation_steps=3", "optimizer.gas=2"}).optimizer.gas, 2);
}

TEST_F(NanoGptSettings, OurAccumulationBehindTheirsIsNotShared) {
  EXPECT_EQ(resolved({"--gradient_accumulation_steps=3"}, {"optimizer.gas=5"}, 2).config.optimizer.gas, 5);
  EXPECT_EQ(resolved({}, {"optimizer.gas=5", "--gradient_accumulation_steps=4"}, 2).config.optimizer.gas, 2);
}

TEST_F(NanoGptSettings, AccumulationCountsTheMicroBatchesOfAllRanks) {
  const std::string file = write("gradient_accumulation_steps = 5 * 8\n");
  EXPECT_EQ(resolved({file}).config.optimizer.gas, 40);
  EXPECT_EQ(resolved({file}, {}, 8).config.optimizer.gas, 5);
  EXPECT_EQ(resolved({file, "--gradient_accumulation_steps=6"}, {}, 3).config.optimizer.gas, 2);
  EXPECT_EQ(problems({file}, 3), Words{file + ":1: gradient_accumulation_steps = 40: its micro-batches are shared by 3 "
                                              "data-parallel ranks, which do not divide it -> "
                                              "--gradient_accumulation_steps=42, or another multiple of 3"});
  EXPECT_EQ(problems({write("")}, 7).size(), 1U);
}

TEST_F(NanoGptSettings, RanksThatReadTheSameSamplesShareNoAccumulation) {
  const Words words{"--gradient_accumulation_steps=40"};
  const auto gas = [&](const Words& overrides, std::int64_t ranks) {
    return resolved(words, overrides, ranks).config.optimizer.gas;
  };
  for (const char* method : {"parallel.tp=4", "parallel.pp=4", "parallel.cp=4"}) EXPECT_EQ(gas({method}, 4), 40) << method;
  EXPECT_EQ(gas({"parallel.tp=2"}, 8), 10);
  EXPECT_EQ(gas({"train.backend=ps"}, 5), 10);  // one of them serves
  EXPECT_EQ(resolved({write("")}, {"parallel.tp=2"}, 8).config.optimizer.gas, 10);
}

TEST_F(NanoGptSettings, AByteOrderMarkIsNoPartOfAName) {
  EXPECT_EQ(resolved({write("\xEF\xBB\xBFmax_iters = 7\n")}).config.train.max_iters, 7);
}

TEST_F(NanoGptSettings, LinesThatAreNoneNameThemselves) {
  const std::string file = write(
      "import time\n"
      "wandb_run_name = 'ft-' + str(time.time())\n"
      "  batch_size = 3\n"
      "max_iters\n"
      "\n"
      "max_iter = 3\n"
      "max_iters = 1.5\n"
      "dropout = 'much'\n"
      "zzzzzzzzzzz = 3\n"
      "block_size = 4 * x\n"
      "n_layer = 9999999999 * 9999999999\n"
      "n_head == 3\n"
      "dataset = 'a\\n'\n"
      "out_dir = '\xff'\n");
  const Words found = problems({file});
  const auto has = [&](const std::string& text) {
    return std::any_of(found.begin(), found.end(), [&](const std::string& one) { return one.starts_with(file + ":" + text); });
  };
  const std::string rule =
      ": a line must be NAME = LITERAL: a number, True, False, None, a text in quotes or a product of integers";
  EXPECT_EQ(found.size(), 13U);
  EXPECT_TRUE(std::any_of(found.begin(), found.end(), [](const std::string& one) {
    return one.ends_with(": byte 11 of the line is not UTF-8 -> save the file in UTF-8");
  }));
  EXPECT_TRUE(has("1: 'import time'" + rule + " -> write the value out, or leave the line out: no Python is run"));
  EXPECT_TRUE(has("2: 'wandb_run_name = 'ft-' + str(time.time())'" + rule));
  EXPECT_TRUE(has("3: 'batch_size = 3'" + rule));
  EXPECT_TRUE(has("4: 'max_iters'" + rule));
  EXPECT_TRUE(has("6: nanoGPT's train.py has no setting max_iter -> did you mean max_iters?"));
  EXPECT_TRUE(has("7: max_iters: train.max_iters = 1.5: must be an integer"));
  EXPECT_TRUE(has("8: dropout: model.dropout = \"much\": must be a number"));
  EXPECT_TRUE(has("9: nanoGPT's train.py has no setting zzzzzzzzzzz -> leave the line out"));
  EXPECT_TRUE(has("10: 'block_size = 4 * x'" + rule));
  EXPECT_TRUE(has("11: 'n_layer = 9999999999 * 9999999999'" + rule));
  EXPECT_TRUE(has("12: 'n_head == 3'" + rule));
  EXPECT_TRUE(has("13: 'dataset = 'a\\n''" + rule));
}

TEST_F(NanoGptSettings, WordsAndFilesThatCannotBeRead) {
  EXPECT_EQ(problems({"--max_iters=many"}).at(0).rfind("--max_iters: train.max_iters = many: must be an integer", 0), 0U);
  EXPECT_NE(problems({"/no/such.py"}).at(0).find("/no/such.py"), std::string::npos);
}

TEST_F(NanoGptSettings, EveryNameHasItsSettingAndAGoodDefault) {
  for (const std::string& name : settings::nanogpt_names())
    EXPECT_TRUE(settings::read_nanogpt({"--" + name + "=1"}).problems.empty()) << name;
  RunConfig config;
  EXPECT_TRUE(settings::assign_all(config, settings::read_nanogpt({write("")}).defaults).empty());
}

class NanoGptCommand : public TrainCommand {
 protected:
  std::string write(std::string_view text) const {
    io::replace_file(folder_ / "train.py", text);
    return folder_ / "train.py";
  }
  std::string small() const {
    return write("out_dir = '" + (folder_ / "out").string() +
                 "'\nn_layer = 1\nn_head = 2\nn_embd = 16\nblock_size = 12\nbatch_size = 4\ngradient_accumulation_steps = 2\n"
                 "max_iters = 4\neval_interval = 2\neval_iters = 1\nwarmup_iters = 1\nlr_decay_iters = 4\n");
  }
  Words more(const Words& words) const {
    Words all = {"train", "data.dir=" + (folder_ / "data").string(), "sample.tokens=5", "train.threads=1"};
    all.insert(all.end(), words.begin(), words.end());
    return all;
  }
};

TEST_F(NanoGptCommand, TrainsAndResumesWithItsOwnSettings) {
  const Outcome outcome = lockstep(more({small(), "--eval_iters=2", "--device=cpu"}));
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const Json config = Json::parse(file("out/config.json"));
  EXPECT_EQ(config.at("optimizer").at("gas").integer(), 2);
  EXPECT_EQ(config.at("train").at("eval_iters").integer(), 2);
  EXPECT_EQ(config.at("optimizer").at("schedule").string(), "nanogpt");
  // train.py's defaults do not stand above what the run had.
  const std::string file = write("out_dir = '" + (folder_ / "out").string() + "'\ninit_from = 'resume'\nmax_iters = 6\n");
  const Outcome resumed = lockstep(more({file}));
  ASSERT_EQ(resumed.code, 0) << resumed.err;
  EXPECT_TRUE(std::filesystem::exists(folder_ / "out/checkpoints/step_6"));
}

TEST_F(NanoGptCommand, AnOptionOfASettingWinsWhereItIsTypedLast) {
  const auto steps = [&](const Words& words) {
    std::filesystem::remove_all(folder_ / "out");
    const Outcome outcome = lockstep(more(words));
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return Json::parse(file("out/config.json")).at("train").at("max_iters").integer();
  };
  const std::string recipe = small();
  EXPECT_EQ(steps({recipe, "train.max_iters=3", "--max-iters", "2"}), 2);
  EXPECT_EQ(steps({"--max-iters", "2", recipe, "train.max_iters=3"}), 3);
}

TEST_F(NanoGptCommand, OptionsWithoutAValueOrAName) {
  const Outcome outcome = lockstep(more({"--max_iters", "30", "--max_iter=3", "--learning_rate="}));
  EXPECT_EQ(outcome.code, 2);
  EXPECT_NE(outcome.err.find("--learning_rate has no value"), std::string::npos) << outcome.err;
  const Outcome other = lockstep(more({"--max_iters", "--max_iter=3"}));
  EXPECT_EQ(other.code, 2);
  EXPECT_NE(other.err.find("--max_iters has no value\n  -> write it in one word: --max_iters=VALUE"), std::string::npos)
      << other.err;
  EXPECT_NE(other.err.find("unknown option --max_iter=3\n  -> did you mean --max_iters?"), std::string::npos);
  EXPECT_EQ(lockstep({"eval", "--max_iters=3"}).code, 2);
}

TEST_F(NanoGptCommand, WeightsOfOpenAiThatAreNotHereSayWhereTheyAre) {
  for (const std::string name : {"gpt2", "gpt2-medium", "gpt2-large", "gpt2-xl"}) {
    const Outcome outcome = lockstep(more({"--init_from=" + name}));
    EXPECT_EQ(outcome.code, 2);
    EXPECT_NE(outcome.err.find("train.init_from = " + name + ": OpenAI's weights are not here"), std::string::npos)
        << outcome.err;
    EXPECT_NE(outcome.err.find(" pull openai-community/" + name + " --out " + name + "; or give"), std::string::npos)
        << outcome.err;
  }
}

TEST_F(NanoGptCommand, ALoadedModelsBlockIsCropped) {
  ASSERT_EQ(lockstep(words("a", {"train.max_iters=2"})).code, 0);
  const std::string from = "train.init_from=" + (folder_ / "a").string();
  const Outcome cropped =
      lockstep(words("b", {from, "model.block_size=7", "train.max_iters=2", "optimizer.learning_rate=0", "optimizer.min_lr=0",
                           "--ranks", "2", "memory.zero=3", "train.threads=1", "log.style=wordplay"}));
  ASSERT_EQ(cropped.code, 0) << cropped.err;
  EXPECT_NE(
      cropped.out.find("of the 12 positions that the model in " + (folder_ / "a").string() + " has learned, the first 7 are"),
      std::string::npos);
  EXPECT_NE(cropped.out.find("(wpe): Embedding(7, 16)"), std::string::npos);
  // Nothing was learned: a cropped model answers for 7 positions as the whole one does.
  const auto loss = [&](const std::string& run) {
    const Outcome outcome = lockstep({"eval", "--model", folder_ / run, "--data", folder_ / "data", "--length", "7", "--json"});
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return Json::parse(outcome.out).at("loss").number();
  };
  EXPECT_EQ(loss("a"), loss("b"));
  const Outcome longer = lockstep(words("c", {from, "model.block_size=13"}));
  EXPECT_EQ(longer.code, 2);
  EXPECT_NE(longer.err.find("has learned 12 positions\n  -> model.block_size=12 or less"), std::string::npos) << longer.err;
}

}  // namespace
}  // namespace lockstep::app
