// checkpoint.copies as a user types it.

#include "app/start/copies.h"

#include <gtest/gtest.h>

#include <csignal>
#include <optional>

#include "app/program.h"
#include "app/train_command.h"
#include "checkpoint/find.h"

namespace lockstep::app {
namespace {

class CopiesCommand : public TrainCommand {
 protected:
  /// Saves by the clock alone.
  std::vector<std::string> copying(const std::string& run, std::vector<std::string> more = {}) const {
    more.insert(more.begin(), {"checkpoint.copies=neighbour", "checkpoint.seconds=0.05", "checkpoint.interval=1000000",
                               "train.eval_interval=1000000", "train.log_interval=1", "train.threads=1"});
    return words(run, more);
  }
  static std::vector<std::string> with(std::vector<std::string> words, const std::vector<std::string>& more) {
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
  io::Path place(const std::string& run) const { return copy_place(folder_ / run, *comm::make_self()).folder; }
  std::int64_t newest(const io::Path& folder) const { return checkpoint::list_checkpoints(folder).back().step; }

  /// Starts the program, and kills it behind a copy.
  void kill_behind_a_copy(const std::string& run, const std::vector<std::string>& more) const {
    const std::string log = run + "/log.txt";
    posix_spawn_file_actions_t streams;
    posix_spawn_file_actions_init(&streams);
    posix_spawn_file_actions_addopen(&streams, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
    const pid_t child = start_program(with(copying(run, more), {"train.max_iters=1000000"}), streams);
    posix_spawn_file_actions_destroy(&streams);
    EXPECT_TRUE(support::comes_true(
        [&] { return std::filesystem::exists(folder_ / log) && file(log).find("Copied to memory: ") != std::string::npos; }));
    kill(child, SIGKILL);
    EXPECT_EQ(end_of(child), 128 + SIGKILL);
    EXPECT_TRUE(io::exists(place(run)));
  }
};

TEST_F(CopiesCommand, AKilledRunGoesOnFromThemOnAnyRanks) {
  int number = 0;
  for (const std::vector<std::string>& more : std::vector<std::vector<std::string>>{
           {"--ranks", "2"}, {"--ranks", "2", "memory.zero=2", "train.dtype=bf16"}, {"--ranks", "2", "parallel.tp=2"}}) {
    const std::string run = "killed" + std::to_string(number), whole = "whole" + std::to_string(number++);
    kill_behind_a_copy(run, more);
    const std::int64_t saved = newest(folder_ / run), steps = newest(place(run)) + 5;
    const std::string last = "train.max_iters=" + std::to_string(steps);
    const Outcome again = lockstep(with(copying(run, more), {last, "train.init_from=auto"}));
    ASSERT_EQ(again.code, 0) << again.err;
    const std::string line = "Copies in memory are newer than the checkpoint of step " + std::to_string(saved) + ": ";
    EXPECT_NE(again.out.find(line + (folder_ / run).string() + "/checkpoints/step_"), std::string::npos) << again.out;
    ASSERT_EQ(lockstep(with(words(whole, {"train.eval_interval=1000000", "train.threads=1", last}), more)).code, 0);
    for (const char* name : {"model.safetensors", "optimizer.safetensors"}) {
      const std::string path = "/checkpoints/step_" + std::to_string(steps) + "/" + name;
      EXPECT_TRUE(file(run + path) == file(whole + path)) << path;
    }
    EXPECT_FALSE(io::exists(place(run)));  // a good end leaves none
  }
}

TEST_F(CopiesCommand, OtherRanksGoOnFromThemToo) {
  kill_behind_a_copy("run", {"--ranks", "2"});
  const std::string last = "train.max_iters=" + std::to_string(newest(place("run")) + 2);
  const Outcome one = lockstep(with(copying("run"), {last, "train.init_from=resume", "checkpoint.copies=none"}));
  EXPECT_EQ(one.code, 0) << one.err;
  EXPECT_NE(one.out.find("Copies in memory are newer than"), std::string::npos) << one.out;
  EXPECT_FALSE(io::exists(place("run")));
}

TEST_F(CopiesCommand, ARunThatStartsAnewTakesNone) {
  kill_behind_a_copy("run", {});
  io::remove_folder(folder_ / "run");
  const Outcome anew = lockstep(words("run", {"train.init_from=auto"}));
  EXPECT_EQ(anew.code, 0) << anew.err;
  EXPECT_EQ(anew.out.find("Copies in memory"), std::string::npos) << anew.out;
  EXPECT_FALSE(io::exists(place("run")));
}

TEST_F(CopiesCommand, ThoseThatFollowAnotherCheckpointAreIgnoredWithALine) {
  kill_behind_a_copy("run", {});
  const io::Path saved = folder_ / "run/checkpoints" / checkpoint::folder_name(newest(folder_ / "run"));
  ASSERT_EQ(lockstep(words("other", {"train.max_iters=2"})).code, 0);
  io::remove_folder(saved);
  std::filesystem::copy(folder_ / "other/checkpoints/step_2", folder_ / "run/checkpoints/step_2");
  const Outcome again = lockstep(words("run", {"train.init_from=resume", "train.max_iters=4"}));
  EXPECT_EQ(again.code, 0) << again.err;
  EXPECT_NE((again.out + again.err).find("follows another checkpoint than " + (folder_ / "run").string()), std::string::npos)
      << again.out << again.err;
  EXPECT_EQ(newest(folder_ / "run"), 4);
}

TEST_F(CopiesCommand, AnEvaluationLeavesThemWhereTheyAre) {
  kill_behind_a_copy("run", {});
  EXPECT_EQ(lockstep(words("run", {"train.init_from=resume", "train.eval_only=true"})).code, 0);
  EXPECT_TRUE(io::exists(place("run")));
  std::filesystem::remove_all(place("run"));
}

TEST_F(CopiesCommand, SayWhatOneHostIsNoShieldAgainst) {
  const Outcome run = lockstep(copying("run", {"train.max_iters=4"}));
  EXPECT_EQ(run.code, 0) << run.err;
  EXPECT_NE(run.out.find("Copies:   in " + place("run").string() +
                         " from the first checkpoint on; with one host they outlive its ranks, and not the host"),
            std::string::npos)
      << run.out;
}

TEST_F(CopiesCommand, CountInTheMemoryThatIsDeclared) {
  const std::vector<std::string> gpt2{"train",
                                      "--dry-run",
                                      "model=gpt2",
                                      "data.root_path=/nowhere",
                                      "model.vocab_size=50257",
                                      "checkpoint.seconds=30",
                                      "checkpoint.copies=neighbour"};
  const Outcome dry = lockstep(gpt2);
  EXPECT_EQ(dry.code, 0) << dry.err;
  EXPECT_NE(dry.out.find("copies in shared memory"), std::string::npos) << dry.out;
  const Outcome refused = lockstep(with(gpt2, {"memory.limit=1GiB"}));
  EXPECT_EQ(refused.code, 2);
  EXPECT_NE(refused.err.find("checkpoint.copies=none saves "), std::string::npos) << refused.err;
}

TEST_F(CopiesCommand, AHostWithoutRoomForThemIsNamed) {
  const auto world = comm::make_self();
  EXPECT_FALSE(lacks_room_for_copies(1, *world));
  const std::optional<Problem> lack = lacks_room_for_copies(std::int64_t{1} << 60, *world);
  ASSERT_TRUE(lack);
  EXPECT_NE(lack->message.find("checkpoint.copies = neighbour: /dev/shm of "), std::string::npos) << lack->message;
  EXPECT_NE(lack->message.find("its ranks' copies need 1.00 EiB"), std::string::npos) << lack->message;
  EXPECT_NE(lack->remedy.find("checkpoint.copies=none"), std::string::npos) << lack->remedy;
}

TEST_F(CopiesCommand, ParameterServersAreRefused) {
  const Outcome refused = lockstep(copying("run", {"--ranks", "2", "train.backend=ps"}));
  EXPECT_EQ(refused.code, 2);
  EXPECT_NE(refused.err.find("checkpoint.copies = neighbour: with train.backend = ps workers take weights from servers"),
            std::string::npos)
      << refused.err;
  EXPECT_NE(refused.err.find("checkpoint.copies=none, or train.backend=DDP"), std::string::npos) << refused.err;
}

}  // namespace
}  // namespace lockstep::app
