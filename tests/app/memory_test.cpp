// What a run keeps in memory, as the command is told.

#include "train_command.h"

namespace lockstep::app {
namespace {

class MemoryCommand : public TrainCommand {
 protected:
  /// What a run with more settings learnt: its checkpoint's weights and slots, byte by byte.
  std::string learnt(const std::string& run, std::vector<std::string> more) const {
    const Outcome outcome = lockstep(words(run, std::move(more)));
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    std::string all;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(folder_ / run / "checkpoints" / "step_8")) {
      if (entry.path().extension() == ".safetensors") all += io::read_file(entry.path());
    }
    EXPECT_FALSE(all.empty());
    return all;
  }
};

TEST_F(MemoryCommand, RecomputationTrainsTheSameModel) {
  const std::vector<std::string> common{"model.dropout=0.1", "optimizer.gas=2", "train.dtype=bf16"};
  const std::string kept = learnt("none", common);
  for (const std::string recompute : {"selective", "full", "every:2"}) {
    std::vector<std::string> more = common;
    more.push_back("memory.recompute=" + recompute);
    EXPECT_TRUE(learnt(recompute, more) == kept) << recompute;
  }
}

TEST_F(MemoryCommand, ADryRunShowsWhatRecomputationSaves) {
  const auto activations = [&](const std::string& recompute) {
    const Outcome outcome = lockstep(
        {"train", "--dry-run", "model=gpt2", "data.root_path=/nowhere", "model.batch_size=1", "memory.recompute=" + recompute});
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    const std::size_t at = outcome.out.find("\nactivations");
    return at == std::string::npos ? std::string() : outcome.out.substr(at + 1, outcome.out.find('\n', at + 1) - at - 1);
  };
  EXPECT_NE(activations("none").find("368.45 MiB"), std::string::npos) << activations("none");
  EXPECT_NE(activations("selective").find("235.76 MiB"), std::string::npos) << activations("selective");
  EXPECT_NE(activations("full").find("69.39 MiB"), std::string::npos) << activations("full");
}

TEST_F(MemoryCommand, BadRecomputationIsNamed) {
  const auto refused = [&](const std::string& word, const std::string& said) {
    const Outcome outcome = lockstep(words("refused", {word}));
    EXPECT_EQ(outcome.code, 2);
    EXPECT_NE(outcome.err.find(said), std::string::npos) << outcome.err;
    EXPECT_FALSE(std::filesystem::exists(folder_ / "refused" / "checkpoints"));
  };
  refused("memory.recompute=every:0", "memory.recompute = every:0: must be none, selective, full or every:k");
  refused("memory.recompute=ful", "memory.recompute = ful: must be");
  refused("memory.recompute=every:3", "memory.recompute = every:3: the model has 2 blocks to run again");
}

}  // namespace
}  // namespace lockstep::app
