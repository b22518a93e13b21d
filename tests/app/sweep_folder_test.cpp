// The owners of the folders that a sweep writes into and deletes, as a user meets them.

#include <gtest/gtest.h>

#include "app/folder/run_lock.h"
#include "app/sweep/sweep_results.h"
#include "app/train_command.h"

namespace lockstep::app {
namespace {

namespace fs = std::filesystem;

class SweepFolder : public TrainCommand {
 protected:
  std::string at(const std::string& path) const { return (folder_ / path).string(); }
  Outcome sweep(const std::string& out = "sweep") const {
    return lockstep({"sweep", "data.dir=" + at("data"), "model.n_layer=1", "model.n_head=1", "model.n_embd=8",
                     "model.block_size=8", "train.threads=1", "model.batch_size=2,4", "--steps", "2", "--repeats", "1", "--out",
                     at(out)});
  }
  void expect_refusal(const Outcome& outcome, const std::string& said) const {
    EXPECT_EQ(outcome.code, 2);
    EXPECT_NE(outcome.err.find(said), std::string::npos) << outcome.err;
  }
  /// The sweep as it is when it was interrupted in its second run.
  void cut_short() const {
    SweepResults cut = *load_sweep(at("sweep"));
    cut.runs.resize(1);
    save(cut, at("sweep"));
  }
};

TEST_F(SweepFolder, ARunOfTheUserIsNamedBeforeAnythingRuns) {
  ASSERT_EQ(lockstep(words("sweep/runs/2-1")).code, 0);
  io::replace_file(at("sweep/runs/1-1.log"), "mine");
  const Outcome refused = sweep();
  expect_refusal(refused,
                 at("sweep/runs/2-1") + " is there, and this sweep did not make it\n  -> move it away, or another --out");
  expect_refusal(refused, at("sweep/runs/1-1.log") + " is there, and this sweep did not make it");
  EXPECT_TRUE(fs::exists(at("sweep/runs/2-1/checkpoints/step_8/manifest.json")));
  EXPECT_EQ(file("sweep/runs/1-1.log"), "mine");
  EXPECT_FALSE(fs::exists(at("sweep/runs/1-1")));
  EXPECT_FALSE(fs::exists(at("sweep/sweep.json")));
  fs::create_directory(at("tables"));
  io::replace_file(at("tables/sweep.csv"), "a,b\n");
  expect_refusal(sweep("tables"), at("tables/sweep.csv") + " is there, and this sweep did not make it");
}

TEST_F(SweepFolder, WhatWasCutShortBeginsAnewUnlessItLivesOrIsAnotherRun) {
  ASSERT_EQ(sweep().code, 0);
  cut_short();
  {
    const RunLock living(at("sweep/runs/2-1"));
    expect_refusal(sweep(), at("sweep/runs/2-1") + ": another run is writing into this folder");
    EXPECT_TRUE(fs::exists(at("sweep/runs/2-1/metrics.jsonl")));
  }
  EXPECT_EQ(sweep().code, 0);
  EXPECT_EQ(load_sweep(at("sweep"))->runs.size(), 2U);
  cut_short();
  fs::remove_all(at("sweep/runs/2-1"));
  ASSERT_EQ(lockstep(words("sweep/runs/2-1")).code, 0);  // which has the name of the sweep's run, and is the user's
  expect_refusal(sweep(), at("sweep/runs/2-1") + " is there, and this sweep did not make it");
  EXPECT_TRUE(fs::exists(at("sweep/runs/2-1/checkpoints/step_8/manifest.json")));
}

TEST_F(SweepFolder, TheSecondOfTwoSweepsIsRefused) {
  const RunLock first(at("sweep"), {}, {.file = "sweep.lock", .owner = "sweep", .remedy = "another --out"});
  expect_refusal(sweep(), at("sweep") + ": another sweep is writing into this folder");
  EXPECT_EQ(sweep("other").code, 0);
  EXPECT_FALSE(fs::exists(at("other/sweep.lock")));
}

}  // namespace
}  // namespace lockstep::app
