// memory.tiles as a user types it: the same model in less memory, and what is said where it cuts nothing.

#include "train_command.h"

namespace lockstep::app {
namespace {

class TilesCommand : public TrainCommand {
 protected:
  /// A model wider than what tiles are cut at.
  std::vector<std::string> on(int ranks, const std::string& run, std::vector<std::string> more = {}) const {
    std::vector<std::string> all = words(run, {"--ranks", std::to_string(ranks), "model.batch_size=1", "optimizer.gas=2",
                                               "train.threads=1", "model.dropout=0.1", "model.n_embd=272", "sample.prompt=the"});
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  std::string saved(const std::string& run) const {
    const std::string folder = run + "/checkpoints/step_8/";
    return file(folder + "model.safetensors") + file(folder + "optimizer.safetensors");
  }
  void expect_said(const std::string& text, const std::string& what) const {
    EXPECT_NE(text.find(what), std::string::npos) << text;
  }
  void expect_refused(const std::vector<std::string>& more, const std::vector<std::string>& texts) const {
    const Outcome refused = lockstep(on(2, "bad", more));
    EXPECT_EQ(refused.code, 2);
    for (const std::string& text : texts) expect_said(refused.err, text);
    EXPECT_FALSE(std::filesystem::exists(folder_ / "bad" / "checkpoints"));
  }
};

// Evaluating, writing text and saving on the way.
TEST_F(TilesCommand, TrainTheSameModelAndSaveTheSameFiles) {
  const std::string here = "memory.nvme_path=" + folder_.path().string();
  for (const std::string dtype : {"train.dtype=fp32", "train.dtype=bf16"}) {
    ASSERT_EQ(lockstep(on(2, "whole" + dtype, {dtype})).code, 0);
    for (const std::vector<std::string>& more :
         {std::vector<std::string>{"memory.zero=3", "memory.tiles=1x4"},
          {"memory.zero=3", "memory.tiles=2x2"},
          {"memory.zero=3", "memory.tiles=2x1", "memory.max_tile_bytes=400000", "memory.offload_params=nvme", here}}) {
      const std::string run = dtype + more[1];
      std::vector<std::string> all = more;
      all.push_back(dtype);
      const Outcome outcome = lockstep(on(2, run, all));
      ASSERT_EQ(outcome.code, 0) << outcome.err;
      expect_said(outcome.out, "memory.tiles = " + more[1].substr(more[1].find('=') + 1) + ": places for leased weights take ");
      EXPECT_EQ(losses(run), losses("whole" + dtype));
      EXPECT_TRUE(saved(run) == saved("whole" + dtype)) << run;
    }
  }
}

TEST_F(TilesCommand, ARunGoesOnWithOtherTiles) {
  ASSERT_EQ(lockstep(on(2, "whole")).code, 0);
  ASSERT_EQ(lockstep(on(2, "parts", {"train.max_iters=3", "memory.zero=3", "memory.tiles=2x2"})).code, 0);
  const Outcome other = lockstep(
      on(2, "parts",
         {"train.init_from=resume", "train.max_iters=5", "memory.zero=3", "memory.tiles=1x3", "memory.max_tile_bytes=1"}));
  ASSERT_EQ(other.code, 0) << other.err;
  EXPECT_EQ(other.err, "");
  const Outcome none =
      lockstep(on(2, "parts", {"train.init_from=resume", "train.max_iters=8", "memory.zero=0", "memory.tiles=1x1"}));
  ASSERT_EQ(none.code, 0) << none.err;
  EXPECT_TRUE(saved("parts") == saved("whole"));
}

TEST_F(TilesCommand, WhereTheyCutNothingARunSaysSo) {
  const auto said = [&](std::vector<std::string> more, const std::string& what) {
    more.push_back("--dry-run");
    const Outcome run = lockstep(on(2, "dry", more));
    EXPECT_EQ(run.code, 0) << run.err;
    expect_said(run.out, what);
  };
  said(
      {"memory.tiles=1x2"},
      "memory.tiles = 1x2: weights lie whole in memory (neither memory.zero=3 nor memory.offload_params), so this saves nothing");
  said({"memory.tiles=1x2", "memory.zero=3", "memory.max_tile_bytes=10000000"},
       "memory.tiles = 1x2: no matrix of a block is larger than memory.max_tile_bytes = 10000000 and has more than 256 features");
  said({"memory.tiles=1x2", "memory.zero=3", "model.n_embd=16"}, "memory.tiles = 1x2: no matrix of a block is larger than");
  const Outcome none = lockstep(on(2, "dry", {"--dry-run"}));
  EXPECT_EQ(none.out.find("memory.tiles = "), std::string::npos) << none.out;
}

TEST_F(TilesCommand, BadTilesAreNamed) {
  expect_refused({"memory.tiles=4"}, {"memory.tiles = 4: must be INxOUT", "memory.tiles=1x4, or 1x1 for whole matrices"});
  expect_refused({"memory.tiles=0x4"}, {"memory.tiles = 0x4: must be INxOUT"});
  expect_refused({"memory.tiles=2x2x2"}, {"memory.tiles = 2x2x2: must be INxOUT"});
  expect_refused({"memory.tiles=273x2"},
                 {"memory.tiles = 273x2: a block's smallest linear layer has 272 in-features", "memory.tiles=272x2 or less"});
  expect_refused({"memory.tiles=1x1000", "memory.recompute=ful"},
                 {"memory.tiles = 1x1000: a block's smallest linear layer has 272 out-features", "memory.recompute = ful"});
  expect_refused({"memory.max_tile_bytes=-1"}, {"memory.max_tile_bytes = -1: must be"});
}

TEST_F(TilesCommand, ARefusalForMemorySaysWhatTheySave) {
  const auto refused = [&](std::vector<std::string> more) {
    more.insert(more.end(), {"--dry-run", "memory.limit=4MiB"});
    const Outcome run = lockstep(on(2, "limited", more));
    EXPECT_EQ(run.code, 2);
    return run.err;
  };
  expect_said(refused({"memory.zero=3"}), "memory.tiles=1x4 saves ");
  EXPECT_EQ(refused({"memory.zero=2"}).find("memory.tiles"), std::string::npos);
  EXPECT_EQ(refused({"memory.zero=3", "memory.tiles=1x2"}).find("memory.tiles"), std::string::npos);
}

TEST_F(TilesCommand, ADryRunShowsSmallerPlaces) {
  const auto places = [&](const std::string& tiles) {
    const Outcome run = lockstep({"train", "--dry-run", "data.root_path=/nowhere", "model.n_layer=2", "model.n_head=8",
                                  "model.n_embd=1024", "memory.zero=3", "memory.prefetch=0", "memory.tiles=" + tiles});
    EXPECT_EQ(run.code, 0) << run.err;
    return run.out;
  };
  expect_said(places("1x4"), "places for leased weights take ");
  expect_said(places("1x4"), "gathered tiles");
  EXPECT_EQ(places("1x1").find("gathered tiles"), std::string::npos);
}

}  // namespace
}  // namespace lockstep::app
