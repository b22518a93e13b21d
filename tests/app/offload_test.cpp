// Training state and activations on a disk, as a user types it.

#include <fmt/format.h>
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
  /// And weights and what blocks keep.
  std::vector<std::string> all_offloaded(const std::string& run, std::vector<std::string> more = {}) const {
    more.insert(more.begin(), {"memory.offload_params=nvme", "memory.offload_activations=nvme"});
    return offloaded(run, more);
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

TEST_F(OffloadCommand, EverythingLearnsTheSameAndIsReadAgain) {
  for (const std::string ranks : {"1", "2"}) {
    const std::vector<std::string> more{"--ranks",         ranks,           "train.threads=1",           "model.tied=true",
                                        "model.n_layer=5", "memory.zero=3", "memory.recompute=selective"};
    const std::string memory = "memory" + ranks, disk = "disk" + ranks;
    ASSERT_EQ(lockstep(resident(memory, more)).code, 0);
    const Outcome run = lockstep(all_offloaded(disk, more));
    ASSERT_EQ(run.code, 0) << run.err;
    EXPECT_TRUE(files(disk) == files(memory));
    EXPECT_EQ(losses(disk), losses(memory));
    EXPECT_NE(run.out.find("written in the last step, of whose "), std::string::npos) << run.out;
    expect_nothing_left();
    const auto text = [&](const std::string& from) {
      return lockstep({"generate", "--model", folder_ / from, "--prompt", "the ", "--tokens", "20"}).out;
    };
    EXPECT_EQ(text(disk), text(memory));
  }
}

TEST_F(OffloadCommand, ADryRunSaysWhatItMoves) {
  const Outcome dry = lockstep({"train", "--dry-run", "model=gpt2", "data.root_path=/nowhere", "model.vocab_size=50257",
                                "memory.offload_optimizer=nvme", "memory.nvme_path=/not/there/yet"});
  EXPECT_EQ(dry.code, 0) << dry.err;
  EXPECT_NE(
      dry.out.find("memory.offload_optimizer = nvme: each rank keeps 948.67 MiB of optimizer slots, 474.34 MiB of gradients "
                   "in /not/there/yet"),
      std::string::npos)
      << dry.out;
}

TEST_F(OffloadCommand, WhatALimitNamesLetsARunFit) {
  const std::vector<std::string> run{"train",
                                     "--dry-run",
                                     "model=gpt2",
                                     "data.root_path=/nowhere",
                                     "model.vocab_size=50257",
                                     "model.batch_size=1",
                                     "memory.limit=900MiB"};
  const Outcome refused = lockstep(run);
  EXPECT_EQ(refused.code, 2);
  for (const char* words : {"memory.offload_params=nvme saves ", "memory.offload_activations=nvme saves ",
                            "memory.offload_optimizer=nvme with memory.offload_params=nvme with memory.offload_activations=nvme "
                            "saves "})
    EXPECT_NE(refused.err.find(words), std::string::npos) << refused.err;
  std::vector<std::string> moved = run;
  moved.insert(moved.end(), {"memory.offload_optimizer=nvme", "memory.offload_params=nvme", "memory.offload_activations=nvme",
                             "memory.nvme_path=/not/there/yet"});
  const Outcome fits = lockstep(moved);
  EXPECT_EQ(fits.code, 0) << fits.err;
  EXPECT_NE(fits.out.find("memory.offload_params = nvme: each rank keeps 474.34 MiB of weights in /not/there/yet"),
            std::string::npos)
      << fits.out;
  EXPECT_NE(fits.out.find("each token of a sample reads the weights once more, 256 times"), std::string::npos) << fits.out;
}

TEST_F(OffloadCommand, ToTheHostOfACpuMovesNothing) {
  const Outcome run =
      lockstep(resident("host", {"memory.offload_optimizer=cpu", "memory.offload_params=cpu", "memory.offload_activations=cpu"}));
  ASSERT_EQ(run.code, 0) << run.err;
  for (const char* what : {"optimizer", "params", "activations"})
    EXPECT_NE(
        run.out.find(fmt::format("memory.offload_{} = cpu: the device's memory is the host's, so this moves nothing and saves "
                                 "nothing here",
                                 what)),
        std::string::npos)
        << run.out;
}

TEST_F(OffloadCommand, WhatCannotBeIsNamed) {
  expect_refused({"memory.offload_optimizer=nvme"}, {"memory.offload_optimizer = nvme: memory.nvme_path does not say where"});
  expect_refused({"memory.offload_optimizer=disk"}, {"memory.offload_optimizer = disk: must be one of none, cpu, nvme"});
  const std::string missing = (folder_ / "missing").string(), text = (folder_ / "text.txt").string();
  expect_refused({"memory.offload_optimizer=nvme", "memory.nvme_path=" + missing},
                 {"memory.nvme_path = " + missing + ": there is no such folder"});
  expect_refused({"memory.offload_optimizer=nvme", "memory.nvme_path=" + text}, {": it is no folder"});
  expect_refused({"memory.offload_optimizer=nvme", "memory.nvme_path=/proc"},
                 {"cannot make a file for offloaded state in /proc"});
  expect_refused({"memory.offload_optimizer=cpu", "train.backend=ps", "--ranks", "2"},
                 {"memory.offload_optimizer = cpu: parameter servers have the optimizer's state"});
  expect_refused({"memory.offload_params=nvme", "memory.offload_activations=nvme"},
                 {"memory.offload_params = nvme: memory.nvme_path does not say where",
                  "memory.offload_activations = nvme: memory.nvme_path does not say where"});
  const std::string here = "memory.nvme_path=" + folder_.path().string();
  expect_refused({"memory.offload_params=nvme", here, "--ranks", "2", "train.threads=1"},
                 {"memory.offload_params: with memory.zero below 3 each of the 2 ranks that share the weights has all of them",
                  "memory.zero=3, or memory.offload_params=none"});
  expect_refused({"memory.offload_params=nvme", here, "train.backend=ps", "--ranks", "2"},
                 {"memory.offload_params = nvme: workers of parameter servers keep all weights in memory"});
  expect_refused({"memory.offload_activations=nvme", here, "parallel.pp=2", "parallel.schedule=zb-h1", "optimizer.gas=4",
                  "--ranks", "2", "train.threads=1"},
                 {"memory.offload_activations: the schedule zb-h1 makes weight gradients later",
                  "parallel.schedule=1f1b, or memory.offload_activations=none"});
}

}  // namespace
}  // namespace lockstep::app
