// Parameter servers, as a user types them.

#include <gtest/gtest.h>

#include <csignal>
#include <optional>

#include "app/train_command.h"
#include "base/json.h"
#include "checkpoint/find.h"

namespace lockstep::app {
namespace {

class ServersCommand : public TrainCommand {
 protected:
  std::vector<std::string> on(int ranks, const std::string& run, std::vector<std::string> more = {}) const {
    std::vector<std::string> all = words(run, {"--ranks", std::to_string(ranks), "train.threads=1"});
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  /// `workers` workers and the servers.
  std::vector<std::string> served(int workers, int servers, const std::string& run, std::vector<std::string> more = {}) const {
    more.insert(more.begin(), {"train.backend=ps", "parallel.servers=" + std::to_string(servers)});
    return on(workers + servers, run, more);
  }
  void expect_same_checkpoints(const std::string& a, const std::string& b, int step) const {
    for (const char* name : {"model.safetensors", "optimizer.safetensors"}) {
      const std::string path = "/checkpoints/step_" + std::to_string(step) + "/" + name;
      EXPECT_TRUE(file(a + path) == file(b + path)) << b << path;
    }
  }
};

TEST_F(ServersCommand, LearnWhatRanksLearn) {
  const std::vector<std::string> more{"model.dropout=0.1", "optimizer.gas=2", "log.style=wordplay"};
  ASSERT_EQ(lockstep(on(2, "ranks", more)).code, 0);
  for (const int servers : {1, 2}) {
    const std::string run = "servers" + std::to_string(servers);
    const Outcome outcome = lockstep(served(2, servers, run, more));
    ASSERT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_NE(outcome.out.find("Tokens per iteration: 192"), std::string::npos) << outcome.out;
    EXPECT_NE(outcome.out.find("backend='ps'"), std::string::npos);
    EXPECT_EQ(losses(run), losses("ranks"));
    expect_same_checkpoints("ranks", run, 8);
  }
}

TEST_F(ServersCommand, ResumeWithAndWithoutServers) {
  ASSERT_EQ(lockstep(on(2, "whole")).code, 0);
  ASSERT_EQ(lockstep(served(2, 1, "begun", {"train.max_iters=3"})).code, 0);
  ASSERT_EQ(lockstep(on(2, "begun", {"train.init_from=resume", "train.backend=DDP", "parallel.servers=null"})).code, 0);
  expect_same_checkpoints("whole", "begun", 8);
  ASSERT_EQ(lockstep(on(2, "ended", {"train.max_iters=3"})).code, 0);
  ASSERT_EQ(lockstep(served(2, 2, "ended", {"train.init_from=resume"})).code, 0);
  expect_same_checkpoints("whole", "ended", 8);
  // On another number of workers the samples of a step stay.
  ASSERT_EQ(lockstep(served(2, 1, "wider", {"train.max_iters=3"})).code, 0);
  const Outcome alone = lockstep(served(1, 1, "wider", {"train.init_from=resume"}));
  ASSERT_EQ(alone.code, 0) << alone.err;
  EXPECT_NE(alone.out.find("keeps the checkpoint's global batch of 8 samples on 1 rank"), std::string::npos) << alone.out;
  const Outcome three = lockstep(served(3, 1, "wider", {"train.init_from=resume", "train.max_iters=9"}));
  EXPECT_EQ(three.code, 2);
  EXPECT_NE(three.err.find("--ranks 2, 3"), std::string::npos) << three.err;
}

TEST_F(ServersCommand, WeightsCanBeAveraged) {
  const std::vector<std::string> more{"parallel.ps=weights"};
  ASSERT_EQ(lockstep(served(2, 1, "first", more)).code, 0);
  ASSERT_EQ(lockstep(served(2, 2, "second", more)).code, 0);
  EXPECT_EQ(losses("first"), losses("second"));
  expect_same_checkpoints("first", "second", 8);
  ASSERT_EQ(lockstep(on(2, "ranks")).code, 0);
  EXPECT_NE(losses("first"), losses("ranks"));
}

TEST_F(ServersCommand, AsynchronousRunsReportStaleness) {
  const std::vector<std::string> more{"parallel.ps=async", "parallel.staleness=1", "log.style=wordplay"};
  const Outcome outcome = lockstep(served(3, 2, "run", more));
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_NE(outcome.out.find("\nStaleness:   mean "), std::string::npos) << outcome.out;
  EXPECT_NE(outcome.out.find(" staleness="), std::string::npos) << outcome.out;
  EXPECT_EQ(losses("run").size(), 4U);
  const Json staleness = lines("run").back().at("staleness");
  EXPECT_GE(staleness.at("updates").number(), 8);
  EXPECT_GE(staleness.at("max").number(), staleness.at("mean").number());
  EXPECT_EQ(checkpoint::list_checkpoints(folder_ / "run").size(), 2U);
  // Further on, and with all workers together again.
  std::vector<std::string> further = more;
  further.insert(further.end(), {"train.init_from=resume", "train.max_iters=10"});
  EXPECT_EQ(lockstep(served(3, 1, "run", further)).code, 0);
  EXPECT_EQ(lockstep(on(3, "run",
                        {"train.init_from=resume", "train.max_iters=12", "train.backend=DDP", "parallel.servers=null",
                         "parallel.ps=null", "parallel.staleness=null"}))
                .code,
            0);
  // A worker that is alone waits for no other.
  ASSERT_EQ(lockstep(on(1, "one")).code, 0);
  const Outcome alone = lockstep(served(1, 1, "alone", {"parallel.ps=async"}));
  ASSERT_EQ(alone.code, 0) << alone.err;
  EXPECT_NE(alone.out.find("Bits:     no two runs have the same: servers update as gradients arrive"), std::string::npos)
      << alone.out;
  expect_same_checkpoints("one", "alone", 8);
}

TEST_F(ServersCommand, OtherWaysToReadAndToEnd) {
  const std::string data = (folder_ / "pieces").string();
  ASSERT_EQ(lockstep({"prepare", folder_ / "text.txt", "--out", data, "--shards", "2"}).code, 0);
  for (const char* mode : {"parallel.ps=gradients", "parallel.ps=weights", "parallel.ps=async"}) {
    SCOPED_TRACE(mode);
    EXPECT_EQ(lockstep(served(2, 1, "cut", {mode, "data.dir=" + data, "data.shards=precut", "data.order=partition"})).code, 0);
    EXPECT_EQ(lockstep(served(2, 1, "epoch", {mode, "train.max_epochs=1", "train.eval_interval=1000"})).code, 0);
    EXPECT_EQ(lockstep(served(2, 1, "look", {mode, "train.eval_only=true"})).code, 0);
    std::filesystem::remove_all(folder_ / "cut");
    std::filesystem::remove_all(folder_ / "epoch");
  }
  EXPECT_EQ(lockstep(served(2, 1, "readers", {"data.io=readers", "data.readers=2"})).code, 0);
  for (const char* mode : {"parallel.ps=gradients", "parallel.ps=weights", "parallel.ps=async"}) {
    const Outcome dry = lockstep(served(2, 2, "dry", {"--dry-run", mode}));
    EXPECT_EQ(dry.code, 0) << dry.err;
    EXPECT_NE(dry.out.find("Tokens per iteration: 96"), std::string::npos) << dry.out;
    EXPECT_NE(dry.out.find("Memory of the first server\n"), std::string::npos) << dry.out;
  }
}

// All workers leave after the same step, also where none waits for another.
TEST_F(ServersCommand, ASignalStopsThemTogether) {
  for (const char* mode : {"gradients", "async"}) {
    const std::string run = std::string("stopped_") + mode, saving = (folder_ / (run + ".save")).string();
    bool asked = false;  // to save
    const auto has_saved = [&] {
      if (!asked && has_logged(run)) {
        io::replace_file(saving, "");
        asked = true;
      }
      return asked && !std::filesystem::exists(saving);
    };
    std::optional<Meanwhile> sender(std::in_place, has_saved, [] { std::raise(SIGTERM); });
    const Outcome outcome = lockstep(served(3, 1, run,
                                            {std::string("parallel.ps=") + mode, "train.max_iters=1000000",
                                             "train.eval_interval=1000000", "train.save_file=" + saving}));
    sender.reset();
    EXPECT_EQ(outcome.code, 128 + SIGTERM) << outcome.err;
    EXPECT_NE(outcome.out.find("SIGTERM received"), std::string::npos);
    EXPECT_NE(outcome.out.find(" train --ranks 4 --config"), std::string::npos) << outcome.out;
    const std::size_t saved = checkpoint::list_checkpoints(folder_ / run).size();
    EXPECT_GE(saved, 1U);
    EXPECT_LE(saved, 2U);
  }
}

TEST_F(ServersCommand, BadSettingsAreNamedTogether) {
  const auto refused = [&](std::vector<std::string> words, std::initializer_list<const char*> said) {
    const Outcome outcome = lockstep(std::move(words));
    EXPECT_EQ(outcome.code, 2);
    for (const char* part : said) EXPECT_NE(outcome.err.find(part), std::string::npos) << part << " is not in: " << outcome.err;
  };
  refused(on(3, "bad", {"parallel.servers=1", "parallel.ps=async", "parallel.staleness=2"}),
          {"3 problems", "parallel.servers = 1: there are no parameter servers with train.backend = DDP", "parallel.ps = async",
           "parallel.staleness = 2", "train.backend=ps, or parallel.servers=null"});
  refused(
      on(2, "bad",
         {"train.backend=ps", "parallel.servers=2", "parallel.staleness=1", "parallel.reduce=microbatch", "train.dump_step=1"}),
      {"4 problems", "parallel.servers = 2: of 2 ranks none is left to train", "--ranks 4",
       "parallel.staleness = 1: with parallel.ps = gradients all workers wait", "parallel.reduce = microbatch",
       "train.dump_step = 1"});
  refused(on(5, "bad",
             {"train.backend=ps", "parallel.pp=2", "memory.zero=2", "memory.offload_params=cpu", "memory.offload_optimizer=cpu",
              "numerics.canonical=true", "checkpoint.async=true"}),
          {"7 problems", "parallel.pp = 2: parameter servers serve workers that have all layers",
           "memory.zero = 2: parameter servers have the optimizer's state, and their workers all weights",
           "memory.offload_params = cpu: workers of parameter servers keep all weights in memory",
           "memory.offload_optimizer = cpu: parameter servers have the optimizer's state",
           "numerics.canonical = true: parameter servers add up gradients by workers",
           "train.backend=DDP, or numerics.canonical=false", "checkpoint.async = true: with train.backend = ps"});
  refused(on(1, "bad", {"train.backend=ps"}), {"parallel.servers = 1: of 1 rank none is left"});
  refused(on(3, "bad", {"train.backend=ps", "parallel.servers=0"}), {"parallel.servers = 0: must be an integer of at least 1"});
  refused(on(3, "bad", {"train.backend=ps", "parallel.ps=both"}), {"parallel.ps = both", "gradients, weights, async"});
  refused(on(3, "bad", {"train.backend=ps", "parallel.ps=async", "parallel.staleness=-1"}), {"parallel.staleness = -1"});
  refused(on(5, "bad", {"train.backend=ps", "parallel.ps=async", "data.io=readers"}), {"data.io = readers", "data.io=files"});
  EXPECT_FALSE(std::filesystem::exists(folder_ / "bad"));
}

// An error of rank 0, which writes, ends workers and servers.
TEST_F(ServersCommand, ARunFolderThatCannotBeWrittenEndsAllRanks) {
  io::replace_file(folder_ / "taken", "a file, not a folder");
  for (const char* mode : {"gradients", "async"}) {
    const Outcome outcome = lockstep(served(2, 2, "taken/run", {std::string("parallel.ps=") + mode}));
    EXPECT_NE(outcome.code, 0);
    EXPECT_NE(outcome.err.find("taken"), std::string::npos) << outcome.err;
  }
}

}  // namespace
}  // namespace lockstep::app
