// checkpoint.async as a user types it.

#include <gtest/gtest.h>

#include <csignal>
#include <optional>

#include "app/train_command.h"
#include "checkpoint/find.h"

namespace lockstep::app {
namespace {

class AsyncSaveCommand : public TrainCommand {
 protected:
  std::vector<std::string> beside(const std::string& run, std::vector<std::string> more = {}) const {
    more.insert(more.begin(), {"checkpoint.async=true", "checkpoint.interval=2"});
    return words(run, more);
  }
  std::vector<std::string> stopping(const std::string& run, std::vector<std::string> more = {}) const {
    more.insert(more.begin(), "checkpoint.interval=2");
    return words(run, more);
  }
  std::vector<std::int64_t> steps(const std::string& run) const {
    std::vector<std::int64_t> all;
    for (const checkpoint::Found& found : checkpoint::list_checkpoints(folder_ / run)) all.push_back(found.step);
    return all;
  }
  void expect_same_run(const std::string& one, const std::string& other) const {
    EXPECT_EQ(losses(one), losses(other));
    ASSERT_EQ(steps(one), steps(other));
    for (const std::int64_t step : steps(one)) {
      for (const char* name : {"model.safetensors", "optimizer.safetensors"}) {
        const std::string path = "/checkpoints/step_" + std::to_string(step) + "/" + name;
        EXPECT_TRUE(file(one + path) == file(other + path)) << path;
      }
    }
  }
  void expect_nothing_half_made(const std::string& run) const {
    for (const auto& entry : std::filesystem::directory_iterator(folder_ / run / "checkpoints"))
      EXPECT_NE(entry.path().filename().string().front(), '.') << entry.path();
  }
};

TEST_F(AsyncSaveCommand, SavesTheSameAndSaysWhenItIsDurable) {
  int number = 0;
  for (const std::vector<std::string>& more : std::vector<std::vector<std::string>>{
           {},
           {"--ranks", "2", "memory.zero=2", "train.threads=1"},
           {"--ranks", "2", "parallel.tp=2", "train.threads=1", "train.dtype=bf16"},
           {"memory.offload_optimizer=nvme", "memory.nvme_path=" + folder_.path().string(), "train.dtype=bf16"}}) {
    const std::string a = "stopping" + std::to_string(number), b = "beside" + std::to_string(number++);
    ASSERT_EQ(lockstep(stopping(a, more)).code, 0);
    const Outcome run = lockstep(beside(b, more));
    ASSERT_EQ(run.code, 0) << run.err;
    expect_same_run(a, b);
    expect_nothing_half_made(b);
    for (const int step : {2, 4, 6, 8}) {
      const std::string saved =
          "Saved checkpoint to: " + (folder_ / b).string() + "/checkpoints/step_" + std::to_string(step) + " (";
      const std::size_t at = run.out.find(saved);
      ASSERT_NE(at, std::string::npos) << run.out;
      EXPECT_NE(run.out.find("; durable at step ", at), std::string::npos);
      EXPECT_NE(run.out.find(", training waited ", at), std::string::npos);
    }
  }
}

TEST_F(AsyncSaveCommand, AResumeMayChangeIt) {
  ASSERT_EQ(lockstep(stopping("whole")).code, 0);
  ASSERT_EQ(lockstep(beside("parts", {"train.max_iters=4"})).code, 0);
  const Outcome off = lockstep(stopping("parts", {"train.init_from=resume", "checkpoint.async=false", "train.max_iters=6"}));
  ASSERT_EQ(off.code, 0) << off.err;
  EXPECT_EQ(off.out.find("checkpoint.async = "), std::string::npos) << off.out;  // no warning
  ASSERT_EQ(lockstep(beside("parts", {"train.init_from=resume", "train.max_iters=8"})).code, 0);
  EXPECT_TRUE(file("parts/checkpoints/step_8/optimizer.safetensors") == file("whole/checkpoints/step_8/optimizer.safetensors"));
}

TEST_F(AsyncSaveCommand, ASignalEndsTheRunWhenTheLastSaveIsDurable) {
  std::optional<Meanwhile> sender(std::in_place, [&] { return has_logged("run"); }, [] { std::raise(SIGTERM); });
  const Outcome run = lockstep(beside("run", {"train.max_iters=1000000", "train.eval_interval=1000000"}));
  sender.reset();
  EXPECT_EQ(run.code, 128 + SIGTERM) << run.err;
  EXPECT_NE(run.out.find("Stopped:"), std::string::npos) << run.out;
  expect_nothing_half_made("run");
  const checkpoint::Choice last = checkpoint::choose_checkpoint(folder_ / "run", "last");
  EXPECT_NE(run.out.find("Saved checkpoint to: " + last.folder.string() + " ("), std::string::npos) << run.out;
}

TEST_F(AsyncSaveCommand, TheClockAsksForSavesTooAndChangesNothing) {
  for (const std::string async : {"false", "true"}) {
    const std::string run = "clock-" + async;
    const std::vector<std::string> endless{"train.max_iters=1000000", "train.eval_interval=1000000",
                                           "checkpoint.interval=1000000", "checkpoint.async=" + async, "checkpoint.seconds=0.05"};
    std::optional<Meanwhile> sender(std::in_place, [&] { return !steps(run).empty(); }, [] { std::raise(SIGTERM); });
    const Outcome outcome = lockstep(words(run, endless));
    sender.reset();
    EXPECT_EQ(outcome.code, 128 + SIGTERM) << outcome.err;
    const std::int64_t saved = steps(run).front();
    const std::string whole = "whole-" + async;
    ASSERT_EQ(lockstep(words(whole, {"train.max_iters=" + std::to_string(saved)})).code, 0);
    const std::string model = "/checkpoints/step_" + std::to_string(saved) + "/model.safetensors";
    EXPECT_TRUE(file(run + model) == file(whole + model)) << saved;
  }
}

TEST_F(AsyncSaveCommand, CopiesCountInTheMemoryThatIsDeclared) {
  const std::vector<std::string> gpt2{
      "train", "--dry-run", "model=gpt2", "data.root_path=/nowhere", "model.vocab_size=50257", "checkpoint.async=true"};
  const Outcome dry = lockstep(gpt2);
  EXPECT_EQ(dry.code, 0) << dry.err;
  EXPECT_NE(dry.out.find("copies for saves"), std::string::npos) << dry.out;
  std::vector<std::string> limited = gpt2;
  limited.emplace_back("memory.limit=1GiB");
  const Outcome refused = lockstep(limited);
  EXPECT_EQ(refused.code, 2);
  EXPECT_NE(refused.err.find("checkpoint.async=false saves "), std::string::npos) << refused.err;
}

TEST_F(AsyncSaveCommand, ParameterServersAreRefused) {
  const Outcome refused = lockstep(beside("run", {"--ranks", "2", "train.backend=ps"}));
  EXPECT_EQ(refused.code, 2);
  EXPECT_NE(refused.err.find("checkpoint.async = true: with train.backend = ps workers take weights from servers"),
            std::string::npos)
      << refused.err;
  EXPECT_NE(refused.err.find("checkpoint.async=false, or train.backend=DDP"), std::string::npos);
}

}  // namespace
}  // namespace lockstep::app
