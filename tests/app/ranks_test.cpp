// Several ranks, as a user types them.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <csignal>
#include <optional>
#include <sstream>
#include <utility>

#include "app/start/session.h"
#include "app/train_command.h"
#include "base/json.h"
#include "checkpoint/find.h"

namespace lockstep::app {
namespace {

class RanksCommand : public TrainCommand {
 protected:
  /// A run on that many ranks, each with `samples` of the 8 samples of a step and one thread.
  std::vector<std::string> on(int ranks, int samples, const std::string& run, std::vector<std::string> more = {}) const {
    std::vector<std::string> all = words(run, {"--ranks", std::to_string(ranks), "model.batch_size=" + std::to_string(samples),
                                               "optimizer.gas=" + std::to_string(8 / samples / ranks), "train.threads=1"});
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  std::string weights(const std::string& run, int step) const {
    return file(run + "/checkpoints/step_" + std::to_string(step) + "/model.safetensors");
  }
};

TEST_F(RanksCommand, LearnWhatOneRankLearns) {
  ASSERT_EQ(lockstep(on(1, 8, "one", {"model.dropout=0.1"})).code, 0);
  const std::vector<double> expected = losses("one");
  for (const int ranks : {2, 4}) {
    const std::string run = "ranks" + std::to_string(ranks);
    const Outcome outcome = lockstep(on(ranks, 2, run, {"model.dropout=0.1", "log.style=wordplay"}));
    ASSERT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_NE(outcome.out.find("Tokens per iteration: 96"), std::string::npos);
    EXPECT_NE(outcome.out.find("WORLD_SIZE_IN_USE=" + std::to_string(ranks)), std::string::npos);
    for (int r = 0; r < ranks; ++r) {
      EXPECT_NE(outcome.out.find(fmt::format("[rank={0}/{1}][local_rank={0}/{1}][node=0/0]", r, ranks - 1)), std::string::npos);
      EXPECT_NE(outcome.out.find(fmt::format("\"devid='cpu:{}'\"", r)), std::string::npos);
    }
    const std::vector<double> found = losses(run);
    ASSERT_EQ(found.size(), expected.size());
    for (std::size_t i = 0; i < found.size(); ++i) EXPECT_NEAR(found[i], expected[i], 1e-5 * expected[i]);
    const Json line = lines(run).front();
    EXPECT_GT(line.at("ranks").at("dt").at("mean").number(), 0);
    EXPECT_EQ(line.at("tps").number(), line.at("tps_per_gpu").number() * ranks);
  }
}

TEST_F(RanksCommand, OverlapAndBucketsChangeNoBit) {
  ASSERT_EQ(lockstep(on(2, 2, "plain")).code, 0);
  ASSERT_EQ(lockstep(on(2, 2, "waiting", {"parallel.overlap=false", "parallel.bucket_bytes=1"})).code, 0);
  EXPECT_TRUE(weights("plain", 8) == weights("waiting", 8));
}

TEST_F(RanksCommand, ResumeIsAsIfTheRunHadNeverStopped) {
  ASSERT_EQ(lockstep(on(2, 2, "whole")).code, 0);
  ASSERT_EQ(lockstep(on(2, 2, "parts", {"train.max_iters=3"})).code, 0);
  ASSERT_EQ(lockstep(on(2, 2, "parts", {"train.init_from=resume"})).code, 0);
  EXPECT_TRUE(weights("whole", 8) == weights("parts", 8));
}

TEST_F(RanksCommand, AStartThatIsSentIsTheOneThatIsReadOrDrawn) {
  ASSERT_EQ(lockstep(on(3, 1, "first", {"optimizer.gas=1", "train.max_iters=3"})).code, 0);
  for (const std::string from : {"scratch", "resume", "weights"}) {
    std::vector<std::string> results;
    for (const std::string sent : {"null", "true", "false"}) {
      const std::string run = from + "_" + sent;
      std::filesystem::copy(folder_ / "first", folder_ / run, std::filesystem::copy_options::recursive);
      if (from != "resume") std::filesystem::remove_all(folder_ / run / "checkpoints");
      const std::string init = from == "weights" ? (folder_ / "first").string() : from;
      const Outcome outcome =
          lockstep(on(3, 1, run, {"optimizer.gas=1", "parallel.broadcast_start=" + sent, "train.init_from=" + init}));
      ASSERT_EQ(outcome.code, 0) << outcome.err;
      results.push_back(weights(run, 8));
    }
    EXPECT_TRUE(results[1] == results[0] && results[2] == results[0]) << from;
  }
}

TEST_F(RanksCommand, ADamagedCheckpointIsNamedOnce) {
  ASSERT_EQ(lockstep(on(2, 2, "run", {"train.max_iters=4"})).code, 0);
  const std::filesystem::path model = folder_ / "run/checkpoints/step_4/model.safetensors";
  std::filesystem::resize_file(model, std::filesystem::file_size(model) - 1);
  const Outcome refused = lockstep(on(2, 2, "run", {"train.init_from=resume"}));
  EXPECT_EQ(refused.code, 2);
  EXPECT_EQ(refused.err.find("truncated or replaced"), refused.err.rfind("truncated or replaced")) << refused.err;
  EXPECT_NE(refused.err.find("truncated or replaced"), std::string::npos) << refused.err;
}

TEST_F(RanksCommand, ResumeOnAnotherNumberOfRanksKeepsTheGlobalBatch) {
  ASSERT_EQ(lockstep(on(1, 2, "one")).code, 0);
  for (const int ranks : {1, 2, 4}) {
    const std::string run = "from4to" + std::to_string(ranks);
    ASSERT_EQ(lockstep(on(4, 2, run, {"train.max_iters=4"})).code, 0);
    const Outcome outcome = lockstep(
        words(run, {"--ranks", std::to_string(ranks), "model.batch_size=2", "train.threads=1", "train.init_from=resume"}));
    ASSERT_EQ(outcome.code, 0) << outcome.err;
    if (ranks != 4) {
      EXPECT_NE(outcome.out.find("keeps the checkpoint's global batch of 8 samples"), std::string::npos) << outcome.out;
    }
    const std::vector<double> found = losses(run), expected = losses("one");
    ASSERT_EQ(found.size(), expected.size());
    for (std::size_t i = 0; i < found.size(); ++i) EXPECT_NEAR(found[i], expected[i], 1e-5 * expected[i]);
  }
}

// No number of ranks helps then, but another micro-batch does.
TEST_F(RanksCommand, AMicroBatchThatFitsNoRanksIsToldAnother) {
  ASSERT_EQ(lockstep(on(4, 2, "run", {"train.max_iters=4"})).code, 0);
  for (const auto& [batch, fits] : {std::pair("3", "2"), std::pair("16", "8")}) {
    const Outcome refused = lockstep(words("run", {std::string("model.batch_size=") + batch, "train.init_from=resume"}));
    EXPECT_EQ(refused.code, 2);
    EXPECT_NE(refused.err.find(std::string("resume with model.batch_size=") + fits + ", or let it"), std::string::npos)
        << refused.err;
  }
  EXPECT_EQ(lockstep(words("run", {"model.batch_size=8", "train.init_from=resume"})).code, 0);
}

TEST_F(RanksCommand, ADividedRunIsToldHowOneRankGoesOn) {
  const std::vector<std::string> divided{"--ranks",          "8",
                                         "parallel.tp=2",    "parallel.cp=2",
                                         "parallel.pp=2",    "parallel.sequence=true",
                                         "optimizer.gas=2",  "train.threads=1",
                                         "train.max_iters=2"};
  const Outcome begun = lockstep(words("run", divided));
  ASSERT_EQ(begun.code, 0) << begun.err;
  std::vector<std::string> alone{"train", "log.dir=" + (folder_ / "run").string(), "train.init_from=resume", "train.max_iters=3"};
  const Outcome refused = lockstep(alone);
  EXPECT_EQ(refused.code, 2);
  const std::string told = "divide the model among none: ";
  const std::size_t at = refused.err.find(told);
  ASSERT_NE(at, std::string::npos) << refused.err;
  std::istringstream remedy(refused.err.substr(at + told.size(), refused.err.find('\n', at) - at - told.size()));
  for (std::string word; remedy >> word;) alone.push_back(word);
  const Outcome goes_on = lockstep(alone);
  EXPECT_EQ(goes_on.code, 0) << goes_on.err;
}

TEST_F(RanksCommand, ResumeRefusesRanksThatDoNotDivideTheGlobalBatch) {
  ASSERT_EQ(lockstep(on(4, 2, "run", {"train.max_iters=4"})).code, 0);
  std::vector<std::string> three = words("run", {"--ranks", "3", "model.batch_size=2", "train.init_from=resume"});
  const Outcome refused = lockstep(three);
  EXPECT_EQ(refused.code, 2);
  EXPECT_NE(refused.err.find("global batch of 8 samples does not divide by 3 ranks"), std::string::npos) << refused.err;
  EXPECT_NE(refused.err.find("--ranks 1, 2, 4"), std::string::npos) << refused.err;
  three.emplace_back("train.global_batch=new");
  EXPECT_EQ(lockstep(three).code, 0);
}

TEST_F(RanksCommand, ReadersGiveTheSameTraining) {
  ASSERT_EQ(lockstep(on(4, 2, "files")).code, 0);
  for (const char* readers : {"1", "2"}) {
    const std::string run = std::string("readers") + readers;
    ASSERT_EQ(lockstep(on(4, 2, run, {"data.io=readers", std::string("data.readers=") + readers})).code, 0);
    EXPECT_TRUE(weights(run, 8) == weights("files", 8));
  }
  EXPECT_EQ(lockstep(on(4, 2, "three", {"data.io=readers", "data.readers=3"})).code, 2);
}

TEST_F(RanksCommand, EachRankReadsItsOwnShard) {
  const std::string data = (folder_ / "cut").string();
  ASSERT_EQ(lockstep({"prepare", folder_ / "text.txt", "--out", data, "--shards", "4"}).code, 0);
  const std::vector<std::string> cut{"data.dir=" + data, "data.shards=precut", "data.order=partition"};
  const Outcome outcome = lockstep(on(4, 2, "shards", cut));
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  ASSERT_EQ(lockstep(on(4, 2, "again", cut)).code, 0);
  EXPECT_TRUE(weights("shards", 8) == weights("again", 8));
  std::vector<std::string> epochs = cut;
  epochs.insert(epochs.end(), {"train.max_epochs=1", "train.eval_interval=1000"});
  EXPECT_EQ(lockstep(on(4, 2, "epochs", epochs)).code, 0);
  const Outcome other = lockstep(on(2, 2, "two", cut));
  EXPECT_EQ(other.code, 2);
  EXPECT_NE(other.err.find("prepare TEXT --shards 2"), std::string::npos) << other.err;
  for (const std::string io : {"readers", "mpi"}) {
    std::vector<std::string> both = cut;
    both.push_back("data.io=" + io);
    const Outcome refused = lockstep(on(4, 2, "both", both));
    EXPECT_EQ(refused.code, 2);
    EXPECT_NE(refused.err.find("and data.io = " + io + " exclude each other"), std::string::npos) << refused.err;
  }
  EXPECT_EQ(lockstep({"prepare", folder_ / "text.txt", "--out", data, "--shards", "-1"}).code, 2);
}

// However the batches come, and on any number of ranks, a loss mask takes the same targets away.
TEST_F(RanksCommand, PromptsAreNotTaught) {
  std::string lines;
  for (int i = 0; i < 300; ++i) {
    lines += R"({"prompt": "what is the square of )" + std::to_string(i % 31) + R"(?", "completion": ")" +
             std::to_string(i % 31 * (i % 31)) + "\"}\n";
  }
  io::replace_file(folder_ / "asked.jsonl", lines);
  const std::string data = "data.dir=" + (folder_ / "asked").string();
  ASSERT_EQ(lockstep({"prepare", folder_ / "asked.jsonl", "--out", folder_ / "asked", "--shards", "4"}).code, 0);
  ASSERT_EQ(lockstep(on(1, 8, "one", {data})).code, 0);
  ASSERT_EQ(lockstep(on(4, 2, "files", {data})).code, 0);
  ASSERT_EQ(lockstep(on(4, 2, "readers", {data, "data.io=readers", "data.readers=2"})).code, 0);
  EXPECT_TRUE(weights("readers", 8) == weights("files", 8));
  const std::vector<double> expected = losses("one"), found = losses("files");
  for (std::size_t i = 0; i < found.size(); ++i) EXPECT_NEAR(found[i], expected[i], 1e-5 * expected[i]);
  EXPECT_EQ(lockstep(on(4, 2, "shards", {data, "data.shards=precut"})).code, 0);
  const auto eval = [&](const std::string& ranks) {
    return lockstep({"eval", "--model", folder_ / "one", "--ranks", ranks, "--length", "6", "--json"});
  };
  const Outcome one = eval("1");
  ASSERT_EQ(one.code, 0) << one.err;
  const Json taught = Json::parse(one.out), of_two = Json::parse(eval("2").out);
  EXPECT_LT(taught.at("tokens").integer(), io::read_file(folder_ / "asked/val.mask.bin").size() / 4);
  EXPECT_EQ(of_two.at("tokens").integer(), taught.at("tokens").integer());
  EXPECT_EQ(of_two.at("loss").number(), taught.at("loss").number());
}

// A corpus of one long prompt after another: some steps, and some evaluations, have no target.
TEST_F(RanksCommand, AStepWithoutTargetsIsSaid) {
  std::string lines;
  for (int i = 0; i < 20; ++i) lines += R"({"prompt": ")" + std::string(200, 'q') + R"(", "completion": "a"})" + "\n";
  io::replace_file(folder_ / "asked.jsonl", lines);
  ASSERT_EQ(lockstep({"prepare", folder_ / "asked.jsonl", "--out", folder_ / "asked"}).code, 0);
  const std::vector<std::string> more{"data.dir=" + (folder_ / "asked").string(), "train.eval_iters=200", "model.batch_size=1",
                                      "sample.prompt=q"};
  const Outcome outcome = lockstep(words("masked", more));
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_NE(outcome.out.find("the loss mask leaves no target; the update was left out"), std::string::npos) << outcome.out;
  std::vector<std::string> one_window = more;
  one_window.emplace_back("train.eval_iters=1");
  const Outcome refused = lockstep(words("refused", one_window));
  EXPECT_EQ(refused.code, 2);
  EXPECT_NE(refused.err.find("train.mask.bin masks all of them"), std::string::npos) << refused.err;
}

TEST_F(RanksCommand, TheSeedsCommandCountsTokens) {
  const Outcome outcome =
      lockstep({"train", "train.backend=DDP", "train.eval_interval=100", "data=shakespeare", "train.dtype=bf16",
                "model.batch_size=64", "model.block_size=1024", "train.max_iters=1000", "train.log_interval=10",
                "train.compile=false", "--ranks", "4", "--dry-run", "data.root_path=/nowhere"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_NE(outcome.out.find("Tokens per iteration: 262,144"), std::string::npos);
}

TEST_F(RanksCommand, LearningRatesMayGrowWithTheRanks) {
  const auto rate = [&](const std::string& scaling) {
    EXPECT_EQ(lockstep(on(4, 2, scaling, {"optimizer.lr_scaling=" + scaling})).code, 0);
    return lines(scaling).front().at("lr").number();
  };
  const double none = rate("none");
  EXPECT_DOUBLE_EQ(rate("sqrt"), 2 * none);
  EXPECT_DOUBLE_EQ(rate("linear"), 4 * none);
}

TEST_F(RanksCommand, AResumeOnOtherRanksKeepsWhatTheyMultiplyLearningRatesBy) {
  const std::vector<std::string> more{"optimizer.lr_scaling=linear", "optimizer.decay_lr=false", "train.init_from=auto"};
  const auto last_rate = [&](int ranks, int samples, int steps, std::vector<std::string> words) {
    words.insert(words.end(), more.begin(), more.end());
    words.push_back("train.max_iters=" + std::to_string(steps));
    EXPECT_EQ(lockstep(on(ranks, samples, "run", words)).code, 0);
    return lines("run").back().at("lr").number();
  };
  const double rate = last_rate(2, 4, 2, {});
  EXPECT_EQ(last_rate(4, 2, 4, {}), rate);
  EXPECT_EQ(last_rate(1, 8, 6, {}), rate);
  EXPECT_DOUBLE_EQ(last_rate(1, 4, 8, {"train.global_batch=new", "optimizer.gas=1"}), rate / 2);
}

TEST_F(RanksCommand, EveryRankLogsWhenAsked) {
  const auto lines = [](const std::string& text) {
    std::size_t count = 0;
    for (std::size_t at = text.find("step=2 loss="); at != std::string::npos; at = text.find("step=2 loss=", at + 1)) ++count;
    return count;
  };
  EXPECT_EQ(lines(lockstep(on(2, 2, "quiet", {"log.style=wordplay"})).out), 1U);
  const Outcome all = lockstep(on(2, 2, "all", {"log.all_ranks=true", "log.style=wordplay"}));
  EXPECT_NE(all.out.find("RANK=1\n"), std::string::npos);
}

// All ranks leave after the same step.
TEST_F(RanksCommand, ASignalStopsThemTogether) {
  std::optional<Meanwhile> sender(std::in_place, [&] { return has_logged("stopped"); }, [] { std::raise(SIGTERM); });
  const Outcome outcome = lockstep(on(4, 2, "stopped", {"train.max_iters=1000000", "train.eval_interval=1000000"}));
  sender.reset();
  EXPECT_EQ(outcome.code, 128 + SIGTERM) << outcome.err;
  EXPECT_NE(outcome.out.find("SIGTERM received"), std::string::npos);
  EXPECT_NE(outcome.out.find(" train --ranks 4 --config"), std::string::npos) << outcome.out;
  EXPECT_EQ(checkpoint::list_checkpoints(folder_ / "stopped").size(), 1U);
}

TEST_F(RanksCommand, ScalingIsMeasured) {
  const Outcome outcome =
      lockstep({"bench", "scaling", "--shape", "tiny", "--ranks", "2", "--seconds", "0.01", "--kind", "strong"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_NE(outcome.out.find("strong scaling of tiny"), std::string::npos) << outcome.out;
  const Outcome uneven = lockstep({"bench", "scaling", "--shape", "gpt2:1x1024", "--ranks", "-1"});
  EXPECT_EQ(uneven.code, 2);
}

TEST_F(RanksCommand, BadNumbersAreNamed) {
  const auto refused = [&](std::vector<std::string> more, const std::string& said) {
    const Outcome outcome = lockstep(words("refused", std::move(more)));
    EXPECT_EQ(outcome.code, 2);
    EXPECT_NE(outcome.err.find(said), std::string::npos) << outcome.err;
  };
  refused({"--ranks", "0"}, "--ranks 0: must be from 1");
  refused({"--ranks", "-2"}, "--ranks -2");
  refused({"--ranks", std::to_string(most_ranks() + 1)}, fmt::format("must be from 1 to {} on this machine", most_ranks()));
  refused({"--ranks", "two"}, "two");
  refused({"--ranks", "2", "comm.timeout=0"}, "comm.timeout");
  refused({"--ranks", "2", "parallel.reduce=often"}, "often");
  // More samples in a step than windows in the text.
  refused({"--ranks", "4", "model.batch_size=1000", "data.order=partition"}, "a step needs 4,000");
}

// An error of one rank alone (rank 0 writes) ends the run instead of leaving the others waiting.
TEST_F(RanksCommand, ARunFolderThatCannotBeWrittenEndsAllRanks) {
  io::replace_file(folder_ / "taken", "a file, not a folder");
  const Outcome outcome = lockstep(words("taken/run", {"--ranks", "3"}));
  EXPECT_NE(outcome.code, 0);
  EXPECT_NE(outcome.err.find("taken"), std::string::npos) << outcome.err;
}

TEST_F(RanksCommand, EvaluateAndWriteAsOneRankDoes) {
  ASSERT_EQ(lockstep(on(2, 2, "model")).code, 0);
  const std::string model = (folder_ / "model").string();
  const auto evaluated = [&](const std::string& ranks) {
    const std::string logits = (folder_ / ("logits" + ranks)).string();
    const Outcome outcome = lockstep({"eval", "--model", model, "--length", "5", "--json", "--ranks", ranks, "--logits", logits});
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return outcome.out + io::read_file(logits);
  };
  const auto written = [&](const std::string& ranks) {
    const Outcome outcome =
        lockstep({"generate", "--model", model, "--prompt", "the", "--tokens", "20", "--samples", "5", "--ranks", ranks});
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return outcome.out;
  };
  EXPECT_TRUE(evaluated("1") == evaluated("3"));
  EXPECT_EQ(written("1"), written("3"));
  EXPECT_EQ(lockstep({"eval", "--model", model, "--ranks", "0"}).code, 2);
  EXPECT_EQ(lockstep({"generate", "--model", "/nowhere", "--ranks", "2"}).code, 2);
}

}  // namespace
}  // namespace lockstep::app
