// Ranks that divide the layers, as a user types them.

#include <gtest/gtest.h>

#include "app/program.h"
#include "app/train_command.h"
#include "base/shell.h"
#include "support/mpi_job.h"

namespace lockstep::app {
namespace {

class PipelineCommand : public TrainCommand {
 protected:
  std::vector<std::string> on(int ranks, const std::string& run, std::vector<std::string> more = {}) const {
    std::vector<std::string> all = words(run, {"--ranks", std::to_string(ranks), "model.batch_size=1", "optimizer.gas=4",
                                               "train.threads=1", "model.dropout=0.1", "model.n_layer=5"});
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  std::string saved(const std::string& run, const std::string& name) const {
    return file(run + "/checkpoints/step_8/" + name + ".safetensors");
  }
  void expect_alike(const std::string& run, const std::string& other) const {
    EXPECT_EQ(losses(run), losses(other)) << run;
    for (const char* name : {"model", "optimizer"}) EXPECT_TRUE(saved(run, name) == saved(other, name)) << run << name;
  }
  void expect_refused(const std::vector<std::string>& more, const std::vector<std::string>& texts, int ranks = 2) const {
    const Outcome refused = lockstep(on(ranks, "bad", more));
    EXPECT_EQ(refused.code, 2);
    for (const std::string& text : texts) EXPECT_NE(refused.err.find(text), std::string::npos) << refused.err;
  }
  std::string table(const std::string& text) const {
    io::replace_file(folder_ / "table.csv", text);
    return "parallel.schedule=file:" + (folder_ / "table.csv").string();
  }
};

TEST_F(PipelineCommand, ADryRunSaysWhatEachStageTakes) {
  const Outcome dry = lockstep(on(2, "none", {"--dry-run", "parallel.pp=2", "parallel.split=4,1"}));
  EXPECT_EQ(dry.code, 0) << dry.err;
  EXPECT_NE(dry.out.find("parallel.pp = 2 (1f1b): ranks have 4 layers, "), std::string::npos) << dry.out;
  EXPECT_NE(dry.out.find("; 1 layer, "), std::string::npos) << dry.out;
}

// Evaluating, writing text and saving on the way.
TEST_F(PipelineCommand, EveryScheduleLearnsTheBitsOfOneRank) {
  ASSERT_EQ(lockstep(on(1, "one")).code, 0);
  for (const std::string schedule : {"gpipe", "1f1b", "interleaved", "breadth-first", "zb-h1", "zb-v", "dualpipe-v"}) {
    const Outcome outcome = lockstep(on(2, schedule, {"parallel.pp=2", "parallel.schedule=" + schedule}));
    ASSERT_EQ(outcome.code, 0) << outcome.err;
    expect_alike(schedule, "one");
  }
  ASSERT_EQ(lockstep(on(3, "split", {"parallel.pp=3", "parallel.split=1,3,1"})).code, 0);
  expect_alike("split", "one");
}

TEST_F(PipelineCommand, ATableFromAFileIsRun) {
  ASSERT_EQ(lockstep(on(1, "one")).code, 0);
  const std::string rows = "0F0,0F1,0F2,0F3,0B0,0B1,0B2,0B3\n1F0,1I0,1F1,1I1,1W0,1W1,1F2,1B2,1F3,1B3\n";
  const Outcome outcome = lockstep(on(2, "table", {"parallel.pp=2", table(rows)}));
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  expect_alike("table", "one");
}

TEST_F(PipelineCommand, ARunGoesOnInAnyLayout) {
  ASSERT_EQ(lockstep(on(1, "one")).code, 0);
  const auto go_on = [&](int ranks, const std::vector<std::string>& more) {
    const Outcome outcome = lockstep(on(ranks, "parts", more));
    ASSERT_EQ(outcome.code, 0) << outcome.err;
  };
  go_on(2, {"train.max_iters=3", "parallel.pp=2"});
  go_on(1, {"train.max_iters=5", "parallel.pp=1", "train.init_from=resume"});
  go_on(2, {"train.max_iters=8", "parallel.pp=2", "parallel.schedule=zb-v", "train.init_from=resume"});
  for (const char* name : {"model", "optimizer"}) EXPECT_TRUE(saved("parts", name) == saved("one", name)) << name;
}

TEST_F(PipelineCommand, StagesReadAndWriteWhatOneRankDoes) {
  ASSERT_EQ(lockstep(on(1, "one")).code, 0);
  const auto alike = [&](std::vector<std::string> all) {
    const Outcome one = lockstep(all);
    ASSERT_EQ(one.code, 0) << one.err;
    for (const std::string stages : {"2", "3"}) {
      std::vector<std::string> divided = all;
      divided.insert(divided.end(), {"--layout", "pp=" + stages});
      const Outcome outcome = lockstep(divided);
      EXPECT_EQ(outcome.code, 0) << outcome.err;
      EXPECT_EQ(outcome.out, one.out);
    }
    all.insert(all.end(), {"--layout", "dp=2,pp=2"});
    EXPECT_EQ(lockstep(all).out, one.out);
  };
  const std::string run = (folder_ / "one").string();
  alike({"eval", "--model", run, "--json", "--threads", "1"});
  alike({"generate", "--model", run, "--prompt", "the", "--tokens", "30", "--samples", "3", "--threads", "1"});
}

TEST_F(PipelineCommand, LogitsComeFromTheRankWithTheHead) {
  ASSERT_EQ(lockstep(on(1, "one")).code, 0);
  const auto logits = [&](const std::string& name, const std::vector<std::string>& more) {
    std::vector<std::string> all{"eval", "--model", folder_ / "one", "--logits", folder_ / name, "--threads", "1"};
    all.insert(all.end(), more.begin(), more.end());
    const Outcome outcome = lockstep(all);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return file(name);
  };
  const std::string one = logits("one.st", {});
  EXPECT_TRUE(logits("two.st", {"--layout", "pp=2"}) == one);
  EXPECT_TRUE(logits("four.st", {"--layout", "dp=2,pp=2"}) == one);
}

TEST_F(PipelineCommand, WhatDoesNotFitIsNamedAtOnce) {
  expect_refused({"parallel.pp=6"},
                 {"6 stages", "the model has 5 layers", "dp 1 x tp 1 x cp 1 x pp 6 = 6 ranks, but there are 2"});
  expect_refused({"parallel.pp=2", "parallel.virtual_stages=2", "parallel.split=4,x", "optimizer.gas=1"},
                 {"parallel.virtual_stages = 2: schedule 1f1b has one chunk a rank",
                  "parallel.split = 4,x: must be the numbers of layers of the stages"});
  expect_refused({"parallel.pp=2", "parallel.split=2,2"}, {"parallel.split = 2,2: it adds up to 4 layers, and the model has 5"});
  expect_refused({"parallel.pp=2", "parallel.schedule=dualpipe-v", "optimizer.gas=3"},
                 {"optimizer.gas = 3: schedule dualpipe-v needs at least 2 micro-batches for each of 2 ranks"});
  expect_refused({"parallel.pp=2", "parallel.schedule=2f2b"}, {"parallel.schedule = 2f2b: there is no such schedule"});
  expect_refused({"parallel.pp=2", "train.backend=ps"}, {"parallel.pp = 2: parameter servers serve workers that have all layers"},
                 3);
}

TEST_F(PipelineCommand, TablesThatCannotRunAreNamed) {
  expect_refused({"parallel.pp=2", "parallel.schedule=file:none.csv"}, {"none.csv is no file"});
  expect_refused({"parallel.pp=2", table("0F0,0F1,0B1,0B0\n1F0,1F1,1B0,1B1\n")},
                 {"of micro-batch 1 comes where 0 is due: passes go in the order of micro-batches"});
  expect_refused({"parallel.pp=2", table("0F0,0B0,0F1,0B1\n1F0,1F1,1B0,1B1\n")},
                 {"the ranks wait for each other: rank 0: backward of micro-batch 0 in chunk 0 waits for the input backward of "
                  "micro-batch 0 in stage 1 (rank 1)"});
  expect_refused({"parallel.pp=2", table("0F0,0B0\n1F0,1B0\n"), "parallel.virtual_stages=2"},
                 {"parallel.virtual_stages = 2: in the table of"});
  expect_refused({"parallel.pp=2", table("0F0,0B0\n1F0,1B0\n")}, {"optimizer.gas = 4: the table of parallel.schedule"});
}

TEST_F(PipelineCommand, ReadersWithMoreStagesThanLayersAreRefused) {
  ASSERT_EQ(lockstep(on(1, "one")).code, 0);
  const auto refused = [&](const std::vector<std::string>& more, const std::string& text) {
    std::vector<std::string> all{"eval", "--model", folder_ / "one"};
    all.insert(all.end(), more.begin(), more.end());
    const Outcome outcome = lockstep(all);
    EXPECT_EQ(outcome.code, 2);
    EXPECT_NE(outcome.err.find(text), std::string::npos) << outcome.err;
  };
  refused({"--layout", "pp=6"}, "the model has 5 layers");
  refused({"--layout", "pp=0"}, "pp=0 in the layout pp=0: must be");
}

TEST_F(PipelineCommand, ProcessesLearnTheBitsOfOneRank) {
  if (!test::has_mpirun()) GTEST_SKIP() << "mpirun is not installed (Debian: openmpi-bin)";
  setenv("ASAN_OPTIONS", "detect_leaks=0", 1);
  ASSERT_EQ(lockstep(on(1, "one")).code, 0);
  for (const std::string schedule : {"1f1b", "zb-v"}) {
    std::vector<std::string> all =
        words(schedule, {"model.batch_size=1", "optimizer.gas=4", "train.threads=1", "model.dropout=0.1", "model.n_layer=5",
                         "parallel.pp=2", "parallel.schedule=" + schedule});
    all.insert(all.begin(), program());
    const test::JobOutcome job = test::run_job(2, shell_words(all));
    ASSERT_EQ(job.code, 0) << job.output;
    expect_alike(schedule, "one");
  }
}

}  // namespace
}  // namespace lockstep::app
