// Ranks that mpirun starts, as a user types them: the program itself, not a part of this one.

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

#include "app/mpi_command.h"
#include "app/program.h"
#include "base/json.h"
#include "base/shell.h"
#include "checkpoint/find.h"
#include "support/patience.h"

namespace lockstep::app {
namespace {

class MpiRanks : public MpiCommand {
 protected:
  /// A run of some seconds: 20 steps, a checkpoint every fifth.
  std::vector<std::string> long_run(const std::string& run) const {
    return on_two(run, {"model.n_embd=192", "model.block_size=48", "model.batch_size=24", "train.max_iters=20",
                        "train.log_interval=1", "train.eval_interval=1000", "checkpoint.interval=5", "sample.tokens=0"});
  }
  /// Whether a process has the run in `folder` among its words.
  static bool is_run(const std::string& folder) {
    for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
      std::ifstream words_of(entry.path() / "cmdline");
      const std::string all((std::istreambuf_iterator<char>(words_of)), {});
      if (all.find("log.dir=" + folder) != std::string::npos) return true;
    }
    return false;
  }
  /// Kills rank 1 of the run in `folder`; false when there is no such process.
  static bool kill_rank_1(const std::string& folder) {
    for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
      std::ifstream words_of(entry.path() / "cmdline"), variables_of(entry.path() / "environ");
      const std::string all((std::istreambuf_iterator<char>(words_of)), {});
      const std::string variables((std::istreambuf_iterator<char>(variables_of)), {});
      if (all.find("log.dir=" + folder) == std::string::npos) continue;
      if (variables.find("OMPI_COMM_WORLD_RANK=1") == std::string::npos) continue;
      return kill(std::stoi(entry.path().filename()), SIGKILL) == 0;
    }
    return false;
  }
  /// Launches long_run(run) with `--retries 1` on two slots of this host. Its rank 1 is killed once there is a checkpoint. From
  /// then on the host file says `hosts_then`.
  test::JobOutcome launch_and_kill(const std::string& run, const std::string& hosts_then) const {
    const std::string hosts = (folder_ / (run + ".hosts")).string(), out = (folder_ / (run + ".out")).string();
    io::replace_file(hosts, "localhost slots=2\n");
    std::vector<std::string> command{"launch", "--hostfile", hosts, "--retries", "1", "--"};
    const std::vector<std::string> train = long_run(run);
    command.insert(command.end(), train.begin(), train.end());
    std::jthread killer([&](const std::stop_token& stop) {
      const auto saved = folder_ / run / "checkpoints/step_5/manifest.json";
      while (!stop.stop_requested() && !std::filesystem::exists(saved)) std::this_thread::sleep_for(std::chrono::milliseconds(2));
      io::replace_file(hosts, hosts_then);
      EXPECT_TRUE(kill_rank_1((folder_ / run).string()));
    });
    const int status =
        std::system(("LOCKSTEP_SCHEDULER=none timeout -k 5 200 " + text_of(command) + " >" + out + " 2>&1").c_str());
    killer.request_stop();
    killer.join();
    return {WEXITSTATUS(status), io::read_file(out)};
  }
  /// Ranks of which one, by default the last of two, gets a signal as soon as the run has begun.
  test::JobOutcome run_with_signal(const std::string& signal, const std::string& run, int ranks = 2, int rank = 1,
                                   std::vector<std::string> more = {}) const {
    const std::string begun = (folder_ / run / "metrics.jsonl").string();
    more.insert(more.end(), {"train.max_iters=1000000", "train.eval_interval=1000000"});
    const std::string script = "if [ \"$OMPI_COMM_WORLD_RANK\" = " + std::to_string(rank) + " ]; then (until grep -qs tps " +
                               begun + "; do sleep 0.05; done; kill -" + signal + " $$) & fi; exec " + text_of(on_two(run, more));
    return test::run_job(ranks, shell_words({"sh", "-c", script}));
  }
  /// Four processes learn and save what four threads do.
  void expect_four_processes_as_threads(const std::vector<std::string>& more) const {
    std::vector<std::string> threads = on_two("threads", more);
    threads.insert(threads.end(), {"--ranks", "4"});
    ASSERT_EQ(lockstep(threads).code, 0);
    const test::JobOutcome outcome = test::run_job(4, text_of(on_two("processes", more)));
    ASSERT_EQ(outcome.code, 0) << outcome.output;
    EXPECT_EQ(losses("processes"), losses("threads"));
    for (const char* name : {"model.safetensors", "optimizer.safetensors"}) {
      const std::string path = std::string("/checkpoints/step_8/") + name;
      EXPECT_TRUE(file("threads" + path) == file("processes" + path)) << name;
    }
  }
};

// Weights and gradients that are cut go through memory that the processes share.
TEST_F(MpiRanks, CutTheirStateAtAnyLevel) {
  const std::vector<std::string> more{"model.dropout=0.1", "optimizer.gas=2"};
  std::vector<std::string> threads = on_two("threads", more);
  threads.insert(threads.end(), {"--ranks", "2"});
  ASSERT_EQ(lockstep(threads).code, 0);
  for (const std::string backend : {"zero1", "zero2", "FSDP"}) {
    std::vector<std::string> words = on_two(backend, more);
    words.push_back("train.backend=" + backend);
    const test::JobOutcome outcome = test::run_job(2, text_of(words));
    ASSERT_EQ(outcome.code, 0) << outcome.output;
    EXPECT_EQ(losses(backend), losses("threads"));
    for (const char* name : {"model.safetensors", "optimizer.safetensors"}) {
      const std::string path = std::string("/checkpoints/step_8/") + name;
      EXPECT_TRUE(file("threads" + path) == file(backend + path)) << backend << " " << name;
    }
  }
}

// Processes save beside their steps, threads go on at another level, and processes at a third.
TEST_F(MpiRanks, SaveBesideTrainingAndResumeEachOther) {
  const std::vector<std::string> more{"model.dropout=0.1", "checkpoint.async=true", "checkpoint.interval=2"};
  const auto part = [&](const std::string& run, const std::string& level, const std::string& end, const std::string& from) {
    std::vector<std::string> words = on_two(run, more);
    words.insert(words.end(), {"memory.zero=" + level, "train.max_iters=" + end, "train.init_from=" + from});
    return words;
  };
  const auto on_threads = [](std::vector<std::string> words) {
    words.insert(words.end(), {"--ranks", "2"});
    return lockstep(words).code;
  };
  ASSERT_EQ(on_threads(part("whole", "0", "8", "scratch")), 0);
  const test::JobOutcome first = test::run_job(2, text_of(part("parts", "2", "4", "scratch")));
  ASSERT_EQ(first.code, 0) << first.output;
  EXPECT_NE(first.output.find("; durable at step "), std::string::npos) << first.output;
  ASSERT_EQ(on_threads(part("parts", "3", "6", "resume")), 0);
  const test::JobOutcome last = test::run_job(2, text_of(part("parts", "1", "8", "resume")));
  ASSERT_EQ(last.code, 0) << last.output;
  for (const char* name : {"model.safetensors", "optimizer.safetensors"}) {
    const std::string path = std::string("/checkpoints/step_8/") + name;
    EXPECT_TRUE(file("whole" + path) == file("parts" + path)) << name;
  }
}

// Sums and rows of every layer too.
TEST_F(MpiRanks, DivideLayersAndSamples) {
  const std::vector<std::string> more{"model.dropout=0.1", "optimizer.gas=2", "parallel.tp=2", "parallel.sequence=true",
                                      "memory.zero=2"};
  expect_four_processes_as_threads(more);
}

TEST_F(MpiRanks, PassKeysRoundARing) {
  expect_four_processes_as_threads({"model.dropout=0.1", "parallel.cp=2", "parallel.context=ring", "memory.zero=1"});
}

// Two hosts of two ranks, as far as the layout knows.
TEST_F(MpiRanks, ExchangeHeadsAndPassKeys) {
  expect_four_processes_as_threads(
      {"model.dropout=0.1", "parallel.cp=4", "parallel.context=ulysses+ring", "parallel.ranks_per_host=2"});
}

TEST_F(MpiRanks, LearnWhatThreadsLearn) {
  const std::vector<std::string> more{"model.dropout=0.1", "optimizer.gas=2", "data.io=readers", "log.style=wordplay"};
  std::vector<std::string> threads = on_two("threads", more);
  threads.insert(threads.end(), {"--ranks", "2"});
  ASSERT_EQ(lockstep(threads).code, 0);
  const test::JobOutcome outcome = test::run_job(2, text_of(on_two("processes", more)));
  ASSERT_EQ(outcome.code, 0) << outcome.output;
  EXPECT_NE(outcome.output.find("[0/2] Using device='cpu' with backend='DDP' + 'mpi'"), std::string::npos) << outcome.output;
  EXPECT_EQ(losses("processes").size(), 4U);
  EXPECT_EQ(losses("processes"), losses("threads"));
  for (const char* name : {"model.safetensors", "optimizer.safetensors"}) {
    const std::string path = std::string("/checkpoints/step_8/") + name;
    EXPECT_TRUE(file("threads" + path) == file("processes" + path)) << name;
  }
}

TEST_F(MpiRanks, LearnWhatThreadsLearnInBf16) {
  for (const bool masters : {true, false}) {
    const std::vector<std::string> more{"train.dtype=bf16",
                                        std::string("optimizer.master_weights=") + (masters ? "true" : "false")};
    const std::string name = masters ? "masters" : "alone";
    std::vector<std::string> threads = on_two("threads_" + name, more);
    threads.insert(threads.end(), {"--ranks", "2"});
    ASSERT_EQ(lockstep(threads).code, 0);
    const test::JobOutcome outcome = test::run_job(2, text_of(on_two("processes_" + name, more)));
    ASSERT_EQ(outcome.code, 0) << outcome.output;
    for (const char* part : {"model.safetensors", "optimizer.safetensors"}) {
      const std::string path = "_" + name + "/checkpoints/step_8/" + part;
      EXPECT_TRUE(file("threads" + path) == file("processes" + path)) << path;
    }
  }
}

TEST_F(MpiRanks, ADivergedTrainingKeepsItsExitCode) {
  const std::vector<std::string> more{"optimizer.learning_rate=1e15", "optimizer.weight_decay=1e15", "optimizer.decay_lr=false",
                                      "train.warmup_iters=0",         "train.max_skipped=3",         "sample.tokens=0"};
  const test::JobOutcome outcome = test::run_job(2, text_of(on_two("diverged", more)));
  EXPECT_EQ(outcome.code, kDiverged) << outcome.output;
  const std::size_t said = outcome.output.find("lockstep: the run has diverged");
  EXPECT_NE(said, std::string::npos) << outcome.output;
  EXPECT_EQ(outcome.output.rfind("lockstep: the run has diverged"), said) << outcome.output;
}

TEST_F(MpiRanks, BadInputIsSaidOnce) {
  for (const auto& [word, said] : {std::pair<std::string, std::string>{"model.n_layer=0", "lockstep: model.n_layer = 0: "},
                                   {"train.init_from=/no/such/run", "/no/such/run"}}) {
    const test::JobOutcome outcome = test::run_job(3, text_of(on_two("bad", {word})));
    EXPECT_EQ(outcome.code, 2) << outcome.output;
    const std::size_t first = outcome.output.find(said);
    ASSERT_NE(first, std::string::npos) << outcome.output;
    EXPECT_EQ(outcome.output.rfind(said), first) << outcome.output;
  }
}

TEST_F(MpiRanks, MpiIoGivesTheSameTraining) {
  const test::JobOutcome files = test::run_job(2, text_of(on_two("files", {"optimizer.gas=2"})));
  ASSERT_EQ(files.code, 0) << files.output;
  const test::JobOutcome mpi = test::run_job(2, text_of(on_two("mpi", {"optimizer.gas=2", "data.io=mpi"})));
  ASSERT_EQ(mpi.code, 0) << mpi.output;
  EXPECT_NE(mpi.output.find("train.bin by MPI-IO"), std::string::npos) << mpi.output;
  std::vector<std::string> threads = on_two("threads", {"optimizer.gas=2", "data.io=mpi"});
  threads.insert(threads.end(), {"--ranks", "2"});
  const Outcome outcome = lockstep(threads);
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_NE(outcome.out.find("this is no MPI job, so each rank reads for itself"), std::string::npos) << outcome.out;
  for (const char* name : {"model.safetensors", "optimizer.safetensors"}) {
    const std::string path = std::string("/checkpoints/step_8/") + name;
    EXPECT_TRUE(file("files" + path) == file("mpi" + path)) << name;
    EXPECT_TRUE(file("files" + path) == file("threads" + path)) << name;
  }
}

TEST_F(MpiRanks, ARunWithoutANameHasOneFolder) {
  std::vector<std::string> unnamed = on_two("unused");
  std::erase_if(unnamed, [](const std::string& word) { return word.starts_with("log.dir="); });
  const test::JobOutcome outcome = test::run_job(
      2,
      shell_words({"sh", "-c", "sleep $OMPI_COMM_WORLD_RANK.5; cd " + folder_.path().string() + "; exec " + text_of(unnamed)}));
  ASSERT_EQ(outcome.code, 0) << outcome.output;
  const std::filesystem::directory_iterator runs(folder_ / "runs");
  EXPECT_EQ(std::distance(begin(runs), end(runs)), 1);
}

TEST_F(MpiRanks, OtherSettingsOnOneRankAreNamed) {
  const std::string script =
      "seed=1; if [ \"$OMPI_COMM_WORLD_RANK\" = 1 ]; then seed=2; fi; exec " + text_of(on_two("differ")) + " train.seed=$seed";
  const test::JobOutcome outcome = test::run_job(2, shell_words({"sh", "-c", script}));
  EXPECT_EQ(outcome.code, 2) << outcome.output;
  EXPECT_NE(outcome.output.find("rank 0 with \"seed = 1\", rank 1 with \"seed = 2\""), std::string::npos) << outcome.output;
}

TEST_F(MpiRanks, LaunchStartsThem) {
  std::vector<std::string> command{"launch", "-n", "2", "--oversubscribe", "--"};
  const std::vector<std::string> train = on_two("launched", {"log.style=wordplay"});
  command.insert(command.end(), train.begin(), train.end());
  EXPECT_EQ(
      std::system(
          ("LOCKSTEP_SCHEDULER=none timeout -k 5 200 " + text_of(command) + " >" + (folder_ / "out").string() + " 2>&1").c_str()),
      0)
      << file("out");
  EXPECT_NE(file("out").find("WORLD_SIZE_IN_USE=2"), std::string::npos) << file("out");
  EXPECT_EQ(checkpoint::list_checkpoints(folder_ / "launched").size(), 2U);
}

TEST_F(MpiRanks, AKilledRunGoesOnFromItsLastCheckpoint) {
  std::vector<std::string> whole = long_run("whole");
  whole.insert(whole.end(), {"--ranks", "2"});
  ASSERT_EQ(lockstep(whole).code, 0);

  const test::JobOutcome again = launch_and_kill("again", "localhost slots=2");
  EXPECT_EQ(again.code, 0) << again.output;
  EXPECT_NE(again.output.find("starting again: "), std::string::npos) << again.output;
  for (const char* name : {"model.safetensors", "optimizer.safetensors"}) {
    const std::string path = std::string("/checkpoints/step_20/") + name;
    EXPECT_TRUE(file("again" + path) == file("whole" + path)) << name;
  }

  const test::JobOutcome fewer = launch_and_kill("fewer", "localhost slots=1");
  EXPECT_EQ(fewer.code, 0) << fewer.output;
  for (const char* part :
       {"the number of ranks is 1 now, it was 2", "keeps the checkpoint's global batch of 48 samples on 1 rank"}) {
    EXPECT_NE(fewer.output.find(part), std::string::npos) << fewer.output;
  }
  EXPECT_NEAR(losses("fewer").back(), losses("whole").back(), 1e-5 * losses("whole").back());
}

TEST_F(MpiRanks, AHostFileThatWentBadEndsTheRetries) {
  const test::JobOutcome outcome = launch_and_kill("bad", "no.such.host.at.all");
  EXPECT_EQ(outcome.code, 2);
  EXPECT_NE(outcome.output.find("there is no address of the host no.such.host.at.all"), std::string::npos) << outcome.output;
}

TEST_F(MpiRanks, AKilledLaunchTakesItsRanksAlong) {
  const std::string run = (folder_ / "orphans").string();
  std::vector<std::string> command{"launch", "-n", "2", "--oversubscribe", "--"};
  const std::vector<std::string> train = on_two("orphans", {"train.max_iters=1000000", "train.eval_interval=1000000"});
  command.insert(command.end(), train.begin(), train.end());
  setenv("LOCKSTEP_SCHEDULER", "none", 1);
  posix_spawn_file_actions_t streams;
  posix_spawn_file_actions_init(&streams);
  posix_spawn_file_actions_addopen(&streams, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
  const pid_t launch = start_program(command, streams);
  posix_spawn_file_actions_destroy(&streams);
  unsetenv("LOCKSTEP_SCHEDULER");
  const std::string begun = run + "/metrics.jsonl";
  EXPECT_TRUE(support::comes_true(
      [&] { return std::filesystem::exists(begun) && io::read_file(begun).find("\"loss\"") != std::string::npos; }));
  kill(launch, SIGKILL);
  EXPECT_EQ(end_of(launch), 128 + SIGKILL);
  EXPECT_TRUE(support::comes_true([&] { return !is_run(run); }));
}

TEST_F(MpiRanks, RanksUnderMpiexecAreRefused) {
  const test::JobOutcome outcome = test::run_job(2, text_of(on_two("refused", {"--ranks", "3"})));
  EXPECT_EQ(outcome.code, 2);
  EXPECT_NE(outcome.output.find("--ranks 3 under mpiexec, which has started 2 ranks"), std::string::npos) << outcome.output;
}

TEST_F(MpiRanks, AKilledRankEndsTheRun) {
  const test::JobOutcome outcome = run_with_signal("KILL", "killed");
  EXPECT_NE(outcome.code, 0);
  EXPECT_NE(outcome.code, test::too_long);
  EXPECT_NE(outcome.output.find("rank 1 is no more: process "), std::string::npos) << outcome.output;
}

TEST_F(MpiRanks, ATermSignalToOneRankStopsAll) {
  const test::JobOutcome outcome = run_with_signal("TERM", "stopped");
  EXPECT_EQ(outcome.code, 128 + SIGTERM) << outcome.output;
  EXPECT_NE(outcome.output.find("Stopped:"), std::string::npos) << outcome.output;
  EXPECT_EQ(checkpoint::list_checkpoints(folder_ / "stopped").size(), 1U);
}

TEST_F(MpiRanks, ServersAreRanksToo) {
  const std::vector<std::string> more{"train.backend=ps", "parallel.servers=2"};
  expect_four_processes_as_threads(more);
  const test::JobOutcome few = test::run_job(2, text_of(on_two("few", more)));
  EXPECT_EQ(few.code, 2);
  EXPECT_NE(few.output.find("parallel.servers = 2: of 2 ranks none is left to train"), std::string::npos) << few.output;
}

// Rank 1 is a worker, rank 2 the server.
TEST_F(MpiRanks, AKilledWorkerOrServerEndsTheRun) {
  for (const std::string mode : {"gradients", "async"}) {
    for (const int rank : {1, 2}) {
      const std::string run = mode + std::to_string(rank);
      const test::JobOutcome outcome = run_with_signal("KILL", run, 3, rank, {"train.backend=ps", "parallel.ps=" + mode});
      EXPECT_NE(outcome.code, 0);
      EXPECT_NE(outcome.code, test::too_long);
      EXPECT_NE(outcome.output.find("rank " + std::to_string(rank) + " is no more"), std::string::npos) << outcome.output;
    }
  }
}

TEST_F(MpiRanks, ATermSignalToAServerStopsAll) {
  for (const std::string mode : {"gradients", "async"}) {
    const test::JobOutcome outcome = run_with_signal("TERM", mode, 3, 2, {"train.backend=ps", "parallel.ps=" + mode});
    EXPECT_EQ(outcome.code, 128 + SIGTERM) << outcome.output;
    EXPECT_NE(outcome.output.find("SIGTERM received"), std::string::npos) << outcome.output;
    EXPECT_EQ(checkpoint::list_checkpoints(folder_ / mode).size(), 1U);
  }
}

}  // namespace
}  // namespace lockstep::app
