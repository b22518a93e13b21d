// The recipes of the book's training-speed chapter, and the lines that they log.

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <regex>
#include <sstream>

#include "app/start/resolve.h"
#include "app/train_command.h"
#include "checkpoint/find.h"

namespace lockstep::app {
namespace {

using Lines = std::vector<std::string>;

class Rasbt : public TrainCommand {
 protected:
  /// Five steps an epoch.
  std::vector<std::string> epochs(const std::string& run, std::vector<std::string> more) const {
    more.insert(more.begin(), {"model.block_size=192", "model.batch_size=16", "model.n_layer=1", "train.max_epochs=2",
                               "train.eval_interval=4", "log.style=rasbt", "sample.every=epochs:1", "sample.temperature=0",
                               "sample.prompt=the quick", "sample.tokens=30"});
    return words(run, more);
  }
  /// Those that begin with `word`.
  static Lines lines(const std::string& out, const std::string& word) {
    Lines found;
    std::istringstream in(out);
    for (std::string line; std::getline(in, line);)
      if (line.starts_with(word)) found.push_back(line);
    return found;
  }
};

// "Ep 1, Step 000000" of lines in exactly the book's form.
Lines places(const Lines& lines, const std::string& average) {
  const std::regex form(R"((Ep \d+, Step \d{6}), Train: \d+\.\d{3}, Val: \d+\.\d{3}, Step tok/sec: \d+, )" + average +
                        R"(: \d+)");
  Lines found;
  for (const std::string& line : lines) {
    std::smatch match;
    found.push_back(std::regex_match(line, match, form) ? match[1].str() : "another form: " + line);
  }
  return found;
}

TEST_F(Rasbt, PrintsTheBooksLinesAndNoOthersOfProgress) {
  const Outcome outcome = lockstep(epochs("a", {}));
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(outcome.out.rfind("Lockstep version: ", 0), 0U);
  EXPECT_NE(outcome.out.find("\nUsing cpu\n\n"), std::string::npos);
  EXPECT_NE(outcome.out.find("Settings that change nothing in this run:\n  train.max_iters = 8: "), std::string::npos)
      << outcome.out;
  const Lines progress = lines(outcome.out, "Ep ");
  EXPECT_EQ(places(progress, "Avg tok/sec"), (Lines{"Ep 1, Step 000000", "Ep 1, Step 000004", "Ep 2, Step 000008"}));
  EXPECT_TRUE(progress.at(0).ends_with(", Avg tok/sec: 0"));
  EXPECT_EQ(outcome.out.find(" step="), std::string::npos);
  EXPECT_EQ(outcome.out.find("Training Legend"), std::string::npos);
  EXPECT_EQ(outcome.out.find("train loss"), std::string::npos);
}

TEST_F(Rasbt, ATextAndTheMemoryFollowEachEpoch) {
  const Outcome outcome = lockstep(epochs("a", {}));
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const std::regex after(R"(the quick[^\n]*\n\nAllocated memory: (\d+\.\d{4}) GB\nReserved memory: (\d+\.\d{4}) GB\n\n)");
  std::smatch match;
  ASSERT_TRUE(std::regex_search(outcome.out, match, after));
  EXPECT_LT(std::stod(match[1]), std::stod(match[2]));
  EXPECT_EQ(lines(outcome.out, "Allocated memory").size(), 2U);
  const Json had = Json::parse(file("a/resources.json"));
  double kept = 0;
  for (const char* kind : {"parameters", "gradients", "optimizer"}) kept += had.at("training_bytes").at(kind).number();
  EXPECT_NEAR(std::stod(match[1]), kept / (1 << 30), 1e-4);
}

TEST_F(Rasbt, TextsAreTheSameEveryTimeAtTemperature0) {
  const auto texts = [&](const std::string& run, const std::string& seed) {
    // The weights' start has the seed; what is drawn has none.
    const Outcome outcome = lockstep(epochs(run, {"train.init_from=" + (folder_ / "from").string(), "train.seed=" + seed,
                                                  "optimizer.learning_rate=0", "optimizer.min_lr=0"}));
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return lines(outcome.out, "the quick");
  };
  ASSERT_EQ(lockstep(epochs("from", {"train.max_epochs=1"})).code, 0);
  const Lines one = texts("a", "1"), other = texts("b", "2");
  ASSERT_GE(one.size(), 2U);
  EXPECT_EQ(one.at(0), one.at(1));
  EXPECT_EQ(one.at(0), other.at(0));
}

TEST_F(Rasbt, TextsOfEveryNthEpochBeginWithTheFirst) {
  const Outcome outcome = lockstep(epochs("a", {"train.max_epochs=5", "sample.every=epochs:3"}));
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const std::size_t first = outcome.out.find("Allocated memory"), last = outcome.out.rfind("Allocated memory");
  EXPECT_EQ(lines(outcome.out, "Allocated memory").size(), 2U);
  EXPECT_LT(outcome.out.find("Ep 1, Step 000004"), first);
  EXPECT_GT(outcome.out.find("Ep 2, Step 000008"), first);
  EXPECT_LT(outcome.out.find("Ep 4, Step 000016"), last);
  EXPECT_GT(outcome.out.find("Ep 5, Step 000020"), last);
}

TEST_F(Rasbt, SeveralRanksSayAGlobalAverage) {
  const Outcome outcome = lockstep(epochs("a", {"--ranks", "2", "model.batch_size=8", "train.threads=1"}));
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(places(lines(outcome.out, "Ep "), "Global avg tok/sec"),
            (Lines{"Ep 1, Step 000000", "Ep 1, Step 000004", "Ep 2, Step 000008"}));
}

TEST_F(Rasbt, AResumedRunSaysNothingTwice) {
  ASSERT_EQ(lockstep(epochs("a", {"train.max_epochs=1"})).code, 0);
  const Outcome outcome = lockstep(epochs("a", {"train.init_from=resume"}));
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(places(lines(outcome.out, "Ep "), "Avg tok/sec"), (Lines{"Ep 2, Step 000008"}));
  EXPECT_EQ(lines(outcome.out, "Allocated memory").size(), 1U);
}

TEST_F(Rasbt, EpochsBehindAResumeAreOfItsOwnBatch) {
  std::string tokens;
  for (int i = 0; i < 321; ++i) tokens += {static_cast<char>(i & 255), static_cast<char>(i >> 8)};
  io::make_folder(folder_ / "ids");  // 40 windows of 8
  for (const char* name : {"ids/train.bin", "ids/val.bin"}) io::replace_file(folder_ / name, tokens);
  const auto train = [&](const std::string& run, std::vector<std::string> more) {
    more.insert(more.begin(), {"data.dir=" + (folder_ / "ids").string(), "model.vocab_size=512", "model.block_size=8",
                               "model.batch_size=4", "sample.tokens=0"});
    return lockstep(epochs(run, more));
  };
  for (const std::string run : {"larger", "smaller"}) {
    ASSERT_EQ(train(run, {"train.max_epochs=1"}).code, 0);
    ASSERT_EQ(checkpoint::list_checkpoints(folder_ / run).back().step, 10);
  }
  const Outcome larger = train("larger", {"train.init_from=resume", "train.global_batch=new", "model.batch_size=8"});
  EXPECT_EQ(places(lines(larger.out, "Ep "), "Avg tok/sec"), (Lines{"Ep 2, Step 000012"}));
  EXPECT_EQ(checkpoint::list_checkpoints(folder_ / "larger").back().step, 15);
  EXPECT_EQ(lines(larger.out, "\nAllocated").size(), 0U);
  const Outcome smaller = train("smaller", {"train.init_from=resume", "train.global_batch=new", "model.batch_size=2"});
  EXPECT_EQ(places(lines(smaller.out, "Ep "), "Avg tok/sec"),
            (Lines{"Ep 2, Step 000012", "Ep 2, Step 000016", "Ep 2, Step 000020", "Ep 2, Step 000024", "Ep 2, Step 000028"}));
  EXPECT_EQ(checkpoint::list_checkpoints(folder_ / "smaller").back().step, 30);
  // A third epoch, whose text ends it, and the length of the whole run.
  const Outcome third = train("larger", {"train.init_from=resume", "train.global_batch=new", "model.batch_size=2",
                                         "train.max_epochs=3", "log.style=plain", "sample.every=evaluations"});
  EXPECT_NE(third.out.find("Training: 35 steps of 16 tokens (2.99 times the text)"), std::string::npos) << third.out << third.err;
}

TEST_F(Rasbt, EpochTextsGoWithWordPlaysLinesToo) {
  const Outcome outcome = lockstep(epochs("a", {"log.style=wordplay"}));
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_TRUE(lines(outcome.out, "Ep ").empty());
  std::size_t texts = 0;
  for (std::size_t at = 0; (at = outcome.out.find("['response']", at)) != std::string::npos; ++at) ++texts;
  EXPECT_EQ(texts, 2U);
}

TEST_F(Rasbt, EpochsThatThereAreNotAreRefused) {
  const Outcome outcome = lockstep(words("a", {"log.style=rasbt", "sample.every=epochs:2"}));
  EXPECT_EQ(outcome.code, 2);
  EXPECT_NE(outcome.err.find("log.style = rasbt: its lines count epochs"), std::string::npos) << outcome.err;
  EXPECT_NE(outcome.err.find("sample.every = epochs:2: windows in random order make no epochs"), std::string::npos);
  EXPECT_NE(outcome.err.find("set train.max_epochs or data.order=partition"), std::string::npos);
  for (const char* wrong : {"epochs:0", "epochs:", "epochs:x", "epoch", "steps:3"}) {
    const Outcome refused = lockstep(words("a", {std::string("sample.every=") + wrong}));
    EXPECT_EQ(refused.code, 2);
    EXPECT_NE(refused.err.find("must be evaluations, or epochs:N"), std::string::npos) << refused.err;
  }
}

TEST_F(Rasbt, TheRecipesRunOnASmallModel) {
  if (!std::filesystem::is_directory("configs")) GTEST_SKIP() << "run from the source folder";
  for (const std::string name : {"orig", "opt", "ddp"}) {
    std::vector<std::string> all =
        words(name, {"--config", "configs/rasbt-" + name + ".toml", "model.block_size=192", "model.batch_size=8",
                     "model.vocab_size=null", "train.max_epochs=1", "train.eval_interval=3", "train.threads=1"});
    if (name == "ddp") all.insert(all.end(), {"--ranks", "2"});
    const Outcome outcome = lockstep(all);
    ASSERT_EQ(outcome.code, 0) << name << outcome.err;
    EXPECT_GE(places(lines(outcome.out, "Ep "), name == "ddp" ? "Global avg tok/sec" : "Avg tok/sec").size(), 2U);
    EXPECT_EQ(lines(outcome.out, "Allocated memory").size(), 1U);
    EXPECT_EQ(outcome.out.find("another form"), std::string::npos);
  }
}

TEST(RasbtRecipes, HaveTheBooksSettings) {
  if (!std::filesystem::is_directory("configs")) GTEST_SKIP() << "run from the source folder";
  struct Row {
    const char* name;
    std::int64_t vocabulary, batch, epochs, eval_interval, sample_epochs;
    DType type;
  };
  for (const Row& row : {Row{"orig", 50257, 8, 15, 15, 1, DType::f32}, Row{"opt", 50304, 32, 15, 10, 1, DType::bf16},
                         Row{"ddp", 50304, 32, 50, 5, 5, DType::bf16}}) {
    const RunConfig config = settings::resolve({{std::string("configs/rasbt-") + row.name + ".toml"}, {}}).config;
    EXPECT_EQ(config.model.vocab_size, row.vocabulary);
    EXPECT_EQ(config.model.batch_size, row.batch);
    EXPECT_EQ(config.train.max_epochs, row.epochs);
    EXPECT_EQ(config.train.eval_interval, row.eval_interval);
    EXPECT_EQ(config.train.eval_iters, 1);
    EXPECT_EQ(config.train.seed, 123);
    EXPECT_EQ(config.sample.every.epochs, row.sample_epochs);
    EXPECT_EQ(config.sample.tokens, 50);
    EXPECT_EQ(config.sample.temperature, 0);
    EXPECT_EQ(dtype_of(config), row.type);
    EXPECT_EQ(moments_of(config), row.type);
    EXPECT_EQ(config.optimizer.learning_rate, 5e-4);
    EXPECT_EQ(config.optimizer.beta2, 0.999);
    EXPECT_EQ(config.optimizer.decay, arch::DecayRule::all);
    EXPECT_FALSE(config.optimizer.decay_lr);
    EXPECT_EQ(config.optimizer.grad_clip, 0);
    EXPECT_EQ(config.model.dropout, 0.1);
    EXPECT_EQ(config.kernels == RunConfig::Kernels{}, row.vocabulary == 50304);
    EXPECT_EQ(config.log.style, train::LogStyle::rasbt);
  }
}

}  // namespace
}  // namespace lockstep::app
