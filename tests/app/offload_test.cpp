// The optimizer's state on a disk, as a user types it.

#include <gtest/gtest.h>

#include "app/train_command.h"

namespace lockstep::app {
namespace {

class OffloadCommand : public TrainCommand {
 protected:
  std::vector<std::string> offloaded(const std::string& run, std::vector<std::string> more = {}) const {
    more.insert(more.begin(), {"memory.offload_optimizer=nvme", "memory.nvme_path=" + folder_.path().string(), "optimizer.gas=2",
                               "train.dtype=bf16", "model.dropout=0.1"});
    return words(run, more);
  }
  std::vector<std::string> resident(const std::string& run, std::vector<std::string> more = {}) const {
    more.insert(more.begin(), {"optimizer.gas=2", "train.dtype=bf16", "model.dropout=0.1"});
    return words(run, more);
  }
  std::string files(const std::string& run) const {
    const std::string step = run + "/checkpoints/step_8/";
    return file(step + "model.safetensors") + file(step + "optimizer.safetensors");
  }
  void expect_refused(const std::vector<std::string>& more, const std::vector<std::string>& texts) const {
    const Outcome refused = lockstep(words("bad", more));
    EXPECT_EQ(refused.code, 2);
    for (const std::string& text : texts) EXPECT_NE(refused.err.find(text), std::string::npos) << refused.err;
    EXPECT_FALSE(std::filesystem::exists(folder_ / "bad" / "checkpoints"));
  }
  void expect_nothing_left() const {
    for (const auto& entry : std::filesystem::directory_iterator(folder_.path()))
      EXPECT_EQ(entry.path().string().find("offload-"), std::string::npos) << entry.path();
  }
};

TEST_F(OffloadCommand, LearnsTheSameAndSaysWhere) {
  ASSERT_EQ(lockstep(resident("memory")).code, 0);
  const Outcome disk = lockstep(offloaded("disk"));
  ASSERT_EQ(disk.code, 0) << disk.err;
  EXPECT_NE(disk.out.find("memory.offload_optimizer = nvme: "), std::string::npos) << disk.out;
  EXPECT_NE(disk.out.find(" in a file in " + folder_.path().string() + ", by "), std::string::npos) << disk.out;
  EXPECT_TRUE(files("disk") == files("memory"));
  EXPECT_EQ(losses("disk"), losses("memory"));
  expect_nothing_left();
}

TEST_F(OffloadCommand, GoesOnWithAnotherPlaceAndOtherRanks) {
  ASSERT_EQ(lockstep(resident("memory", {"--ranks", "2", "train.threads=1"})).code, 0);
  ASSERT_EQ(lockstep(offloaded("parts", {"--ranks", "2", "train.threads=1", "memory.zero=1", "train.max_iters=3"})).code, 0);
  const Outcome resumed = lockstep(resident("parts", {"--ranks", "2", "train.threads=1", "memory.offload_optimizer=none",
                                                      "memory.zero=3", "train.init_from=resume", "train.max_iters=8"}));
  ASSERT_EQ(resumed.code, 0) << resumed.err;
  EXPECT_TRUE(files("parts") == files("memory"));
}

TEST_F(OffloadCommand, RanksThatDivideLayersOffloadTheirParts) {
  const std::vector<std::string> ranks{"--ranks", "4", "train.threads=1", "parallel.tp=2", "memory.zero=1"};
  ASSERT_EQ(lockstep(resident("memory", ranks)).code, 0);
  const Outcome disk = lockstep(offloaded("disk", ranks));
  ASSERT_EQ(disk.code, 0) << disk.err;
  EXPECT_TRUE(files("disk") == files("memory"));
}

TEST_F(OffloadCommand, StagesOffloadTheirLayersAndBothEndsOfATiedMatrix) {
  const std::vector<std::string> ranks{"--ranks", "2", "train.threads=1", "parallel.pp=2"};
  ASSERT_EQ(lockstep(resident("memory", ranks)).code, 0);
  const Outcome disk = lockstep(offloaded("disk", ranks));
  ASSERT_EQ(disk.code, 0) << disk.err;
  EXPECT_TRUE(files("disk") == files("memory"));
}

TEST_F(OffloadCommand, ADryRunSaysWhatItMoves) {
  const Outcome dry = lockstep({"train", "--dry-run", "model=gpt2", "data.root_path=/nowhere", "model.vocab_size=50257",
                                "memory.offload_optimizer=nvme", "memory.nvme_path=/not/there/yet"});
  EXPECT_EQ(dry.code, 0) << dry.err;
  EXPECT_NE(dry.out.find("memory.offload_optimizer = nvme: each rank keeps 948.67 MiB "), std::string::npos) << dry.out;
  EXPECT_NE(dry.out.find("of the optimizer's state in /not/there/yet"), std::string::npos) << dry.out;
}

TEST_F(OffloadCommand, ToTheHostOfACpuMovesNothing) {
  const Outcome run = lockstep(resident("host", {"memory.offload_optimizer=cpu"}));
  ASSERT_EQ(run.code, 0) << run.err;
  EXPECT_NE(run.out.find("memory.offload_optimizer = cpu: the device's memory is the host's, so this moves nothing and saves "
                         "nothing here"),
            std::string::npos)
      << run.out;
}

TEST_F(OffloadCommand, WhatCannotBeIsNamed) {
  expect_refused({"memory.offload_optimizer=nvme"}, {"memory.offload_optimizer = nvme: memory.nvme_path does not say where"});
  expect_refused({"memory.offload_optimizer=disk"}, {"memory.offload_optimizer = disk: must be one of none, cpu, nvme"});
  const std::string missing = (folder_ / "missing").string(), text = (folder_ / "text.txt").string();
  expect_refused({"memory.offload_optimizer=nvme", "memory.nvme_path=" + missing},
                 {"memory.nvme_path = " + missing + ": there is no such folder"});
  expect_refused({"memory.offload_optimizer=nvme", "memory.nvme_path=" + text}, {": there is no such folder"});
  expect_refused({"memory.offload_optimizer=nvme", "memory.nvme_path=/proc"},
                 {"cannot make a file for offloaded state in /proc"});
  expect_refused({"memory.offload_optimizer=cpu", "train.backend=ps", "--ranks", "2"},
                 {"memory.offload_optimizer = cpu: with train.backend = ps the servers have"});
}

}  // namespace
}  // namespace lockstep::app
