// A training that diverged is not a success.

#include <gtest/gtest.h>

#include <cstring>

#include "app/train_command.h"
#include "checkpoint/find.h"

namespace lockstep::app {
namespace {

namespace fs = std::filesystem;

class DivergedRun : public TrainCommand {
 protected:
  static std::vector<std::string> too_fast(std::vector<std::string> more) {
    more.insert(more.begin(), {"optimizer.learning_rate=1e15", "optimizer.weight_decay=1e15", "optimizer.decay_lr=false",
                               "train.warmup_iters=0", "train.max_iters=40", "sample.tokens=0"});
    return more;
  }
  /// Steps that a run has saved.
  std::vector<std::int64_t> saved(const std::string& run) const {
    std::vector<std::int64_t> steps;
    for (const checkpoint::Found& found : checkpoint::list_checkpoints(folder_ / run)) steps.push_back(found.step);
    return steps;
  }
};

TEST_F(DivergedRun, EndsWithAnExitCodeOfItsOwnAndNamesTheGradient) {
  for (const char* ranks : {"1", "2"}) {
    const Outcome outcome = lockstep(words("a" + std::string(ranks), too_fast({"--ranks", ranks, "train.max_skipped=5"})));
    EXPECT_EQ(outcome.code, kDiverged) << outcome.err;
    EXPECT_NE(outcome.err.find("the run has diverged at step "), std::string::npos) << outcome.err;
    EXPECT_NE(outcome.err.find("5 steps in a row were left out; the first gradient that is not finite is that of transformer."),
              std::string::npos)
        << outcome.err;
    EXPECT_EQ(outcome.out.find("Try next:"), std::string::npos);
  }
}

// As train.max_skipped does not come about.
TEST_F(DivergedRun, ByItsLengthToo) {
  const Outcome outcome = lockstep(words("a", too_fast({"train.max_iters=6"})));
  EXPECT_EQ(outcome.code, kDiverged) << outcome.err;
  EXPECT_TRUE(saved("a").empty());
  EXPECT_NE(outcome.err.find("the run has diverged at step 6: its last losses or gradients are not finite"), std::string::npos)
      << outcome.err;
  EXPECT_EQ(outcome.out.find("Try next:"), std::string::npos);
}

TEST_F(DivergedRun, WithParameterServersToo) {
  for (const std::string mode : {"gradients", "weights", "async"}) {
    const Outcome outcome = lockstep(words(
        mode, too_fast({"--ranks", "3", "train.threads=1", "train.backend=ps", "parallel.ps=" + mode, "train.max_skipped=5"})));
    EXPECT_EQ(outcome.code, kDiverged) << mode << outcome.err;
    EXPECT_NE(outcome.err.find("the run has diverged at step "), std::string::npos) << outcome.err;
  }
}

TEST_F(DivergedRun, GoesOnFromItsLastCheckpoint) {
  ASSERT_EQ(lockstep(words("a", {"train.max_iters=4"})).code, 0);
  // Evaluations and saves come while gradients are not finite.
  const Outcome diverged = lockstep(words("a", too_fast({"train.init_from=resume", "train.eval_interval=2"})));
  EXPECT_EQ(diverged.code, kDiverged);
  EXPECT_EQ(saved("a"), std::vector<std::int64_t>{4});
  EXPECT_NE(diverged.out.find("nothing is saved while the loss or the gradient is not finite"), std::string::npos)
      << diverged.out;
  EXPECT_NE(diverged.err.find("go on from " + (folder_ / "a/checkpoints/step_4").string() + " with a lower"), std::string::npos)
      << diverged.err;
  const Outcome outcome =
      lockstep(words("a", {"train.init_from=resume", "optimizer.learning_rate=1e-4", "optimizer.weight_decay=0.1"}));
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_TRUE(checkpoint::list_checkpoints(folder_ / "a").back().manifest->validation_loss.has_value());  // a number
}

// The step that spoils the weights has a finite gradient itself.
TEST_F(DivergedRun, NamesTheLastCheckpointThatWasEvaluated) {
  const Outcome none = lockstep(words("b", too_fast({"train.max_skipped=3"})));
  EXPECT_NE(none.err.find("start again with a lower optimizer.learning_rate"), std::string::npos) << none.err;
  ASSERT_EQ(lockstep(words("a", {"train.max_iters=4"})).code, 0);
  for (int attempt = 0; attempt < 2; ++attempt) {
    const Outcome outcome =
        lockstep(words("a", too_fast({"train.init_from=resume", "train.max_skipped=3", "checkpoint.interval=1"})));
    EXPECT_EQ(outcome.code, kDiverged);
    EXPECT_EQ(saved("a"), (std::vector<std::int64_t>{4, 5}));
    EXPECT_NE(outcome.err.find("train.init_from=" + (folder_ / "a/checkpoints/step_4").string()), std::string::npos)
        << outcome.err;
  }
}

// A large weight that decays by far more than itself.
TEST_F(DivergedRun, WeightsThatAreNotFiniteAreNeverSaved) {
  ASSERT_EQ(lockstep(words("a", {"train.max_iters=2"})).code, 0);
  ASSERT_EQ(lockstep({"convert", folder_ / "a", folder_ / "hf"}).code, 0);
  std::string bytes = io::read_file(folder_ / "hf/model.safetensors");
  std::uint64_t header = 0;
  std::memcpy(&header, bytes.data(), sizeof header);
  const Json tensors = Json::parse(bytes.substr(sizeof header, header));
  const auto at = static_cast<std::size_t>(tensors.at("transformer.wte.weight").at("data_offsets").array()[0].integer());
  const float large = 1e10F;
  std::memcpy(bytes.data() + sizeof header + header + at, &large, sizeof large);
  io::replace_file(folder_ / "hf/model.safetensors", bytes);
  for (const char* ranks : {"1", "2"}) {
    const std::string run = std::string("b") + ranks;
    const Outcome outcome = lockstep(
        {"train", "--ranks", ranks, "data.dir=" + (folder_ / "data").string(), "log.dir=" + (folder_ / run).string(),
         "train.init_from=" + (folder_ / "hf").string(), "model.batch_size=2", "train.eval_iters=1", "sample.tokens=0",
         "train.threads=1", "train.max_iters=4", "checkpoint.interval=1", "train.max_skipped=100", "train.warmup_iters=0",
         "optimizer.decay_lr=false", "optimizer.learning_rate=1e15", "optimizer.weight_decay=1e15"});
    EXPECT_EQ(outcome.code, kDiverged) << outcome.err;
    EXPECT_NE(outcome.err.find("a weight has no finite value; the first weight that is not finite is in transformer."),
              std::string::npos)
        << outcome.err;
    EXPECT_TRUE(saved(run).empty());
  }
}

}  // namespace
}  // namespace lockstep::app
