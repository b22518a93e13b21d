#include "app/fitness/test_dist.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

#include "app/cli/commands.h"
#include "app/start/dist_info.h"
#include "comm/thread/thread_world.h"
#include "support/capture.h"
#include "support/temp_folder.h"

namespace lockstep::app {
namespace {

std::string text_of(const std::filesystem::path& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

TEST(TestDistCommand, PrintsConfigurationNetworkLinesAndPlots) {
  const TempFolder folder;
  Capture capture;
  Log log(capture.file());
  for (int round = 0; round < 2; ++round) {
    run_on_ranks({.ranks = 2, .threads = 1}, [&](Session& session) {
      Log silent(capture.file(), Level::critical);
      Log& mine = session.lead() ? log : silent;
      log_ranks(session, mine);
      run_test_dist({.batch = 4, .input = 8, .output = 8, .layers = {16}, .iterations = 3}, folder.path(), session, mine);
    });
  }
  const std::string text = capture.text();
  for (const char* part :
       {"[device='cpu'][rank=0/1][local_rank=0/1][node=0/0]", "[device='cpu'][rank=1/1][local_rank=1/1][node=0/0]",
        "[dist_info]:\n  • DEVICE=cpu", "  • batch_size=4\n", "  • world_size=2\n",
        "(0): Linear(in_features=8, out_features=16, bias=True)", "iter=1, loss=", "iter=2, loss=", "Appending plot to: "}) {
    EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
  }
  EXPECT_EQ(text.find("iter=0, "), std::string::npos);
  for (const char* metric : {"dt", "dtf", "dtb", "loss", "iter", "sps"}) {
    const std::string title = std::string("train/") + metric + " [20";
    EXPECT_NE(text.find(title), std::string::npos) << metric;
    const std::string kept = text_of(folder.path() / "train" / (std::string(metric) + ".txt"));
    const std::size_t first = kept.find(title);
    ASSERT_NE(first, std::string::npos) << metric;
    EXPECT_NE(kept.find(title, first + 1), std::string::npos) << "the second run was not appended";
  }
}

TEST(TestDistCommand, HelpNamesTheEnvironment) {
  testing::internal::CaptureStdout();
  EXPECT_EQ(test_dist_command().run({"--help"}), 0);
  EXPECT_NE(testing::internal::GetCapturedStdout().find("LAYER_SIZES"), std::string::npos);
}

std::function<const char*(const char*)> environment(const std::map<std::string, std::string>& values) {
  return [&values](const char* name) -> const char* {
    const auto found = values.find(name);
    return found == values.end() ? nullptr : found->second.c_str();
  };
}

TEST(DistInfo, HasTheEighteenKeysInTheirOrder) {
  const Standing standing{.rank = 5,
                          .hosts = {"a", "a", "a", "a", "b", "b", "b", "b"},
                          .transport = "mpi",
                          .hostfile = "",
                          .launch_command = "",
                          .machine = ""};
  EXPECT_EQ(dist_info(standing),
            "[dist_info]:\n  • DEVICE=cpu\n  • DEVICE_ID=cpu:1\n  • DISTRIBUTED_BACKEND=mpi\n  • GPUS_PER_NODE=4\n"
            "  • HOSTS=['a', 'b']\n  • HOSTFILE=None\n  • HOSTNAME=b\n  • LOCAL_RANK=1\n  • MACHINE=b\n  • NUM_NODES=2\n"
            "  • NGPUS=8\n  • NGPUS_AVAILABLE=8\n  • NODE_ID=1\n  • RANK=5\n  • SCHEDULER=LOCAL\n  • WORLD_SIZE_TOTAL=8\n"
            "  • WORLD_SIZE_IN_USE=8\n  • LAUNCH_CMD=None");
  EXPECT_EQ(rank_line(standing), "[device='cpu'][rank=5/7][local_rank=1/3][node=1/1]");
  Standing far = standing;
  far.device = "cuda";
  EXPECT_EQ(rank_line(far), "[device='cuda'][rank=5/7][local_rank=1/3][node=1/1]");
  EXPECT_TRUE(dist_info(far).starts_with("[dist_info]:\n  • DEVICE=cuda\n  • DEVICE_ID=cuda:1\n"));
}

TEST(DistInfo, DevicesAndRanksAreFourNumbers) {
  const Standing standing{.rank = 0,
                          .hosts = {"x3a", "x3a", "x3b", "x3b"},
                          .transport = "mpi",
                          .hostfile = "",
                          .launch_command = "",
                          .machine = "Polaris",
                          .devices = 4,
                          .job_devices = 12,
                          .servers = 1};
  const std::string text = dist_info(standing);
  for (const char* line : {"GPUS_PER_NODE=4", "MACHINE=Polaris", "NUM_NODES=2", "NGPUS=8", "NGPUS_AVAILABLE=12",
                           "WORLD_SIZE_TOTAL=4", "WORLD_SIZE_IN_USE=3"})
    EXPECT_NE(text.find(std::string("  • ") + line + "\n"), std::string::npos) << line << text;
}

TEST(DistInfo, TakesWhatLaunchToldTheRanks) {
  comm::run_ranks(2, {.timeout = 60}, [](comm::Communicator& world) {
    const std::map<std::string, std::string> told{{"HOSTFILE", "/hosts"},
                                                  {"NGPU_PER_HOST", "8"},
                                                  {"NGPUS", "16"},
                                                  {"DIST_LAUNCH", "mpiexec -n 2"},
                                                  {"PBS_NODEFILE", "/nodes"}};
    const Standing standing = find_standing(world, "cpu", "thread", environment(told));
    EXPECT_EQ(standing.launch_command, "mpiexec -n 2");
    EXPECT_EQ(standing.devices, 8);
    EXPECT_EQ(standing.job_devices, 16);
    EXPECT_EQ(standing.hostfile, "/hosts");
    EXPECT_GE(find_standing(world, "cpu", "thread", environment({})).devices, 1);
  });
}

TEST(DistInfo, KnowsTheScheduler) {
  comm::run_ranks(2, {.timeout = 60}, [](comm::Communicator& world) {
    const std::map<std::string, std::string> slurm{{"SLURM_JOB_ID", "7"}}, pbs{{"PBS_JOBID", "7"}, {"PBS_NODEFILE", "/nodes"}};
    EXPECT_EQ(find_standing(world, "cpu", "thread", environment(slurm)).scheduler, "SLURM");
    const Standing standing = find_standing(world, "cpu", "thread", environment(pbs));
    EXPECT_EQ(standing.scheduler, "PBS");
    EXPECT_EQ(standing.hostfile, "/nodes");
    EXPECT_EQ(standing.launch_command, "");  // the ranks were started in another way
    EXPECT_EQ(standing.hosts.size(), 2U);
    EXPECT_EQ(standing.hosts[0], standing.hosts[1]);
    EXPECT_EQ(find_standing(world, "cpu", "thread", environment({})).scheduler, "LOCAL");
  });
}

}  // namespace
}  // namespace lockstep::app
