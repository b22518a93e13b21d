#include "device/topology.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <numeric>
#include <set>
#include <string>

#include "support/temp_folder.h"

namespace lockstep {
namespace {

TEST(Topology, EveryCoreIsNamedOnce) {
  const std::vector<int> cores = neighbouring_cores();
  EXPECT_FALSE(cores.empty());
  EXPECT_EQ(std::set<int>(cores.begin(), cores.end()).size(), cores.size());
}

void write(const std::filesystem::path& file, const std::string& text) {
  std::filesystem::create_directories(file.parent_path());
  std::ofstream(file) << text << "\n";
}

// Two packages of two cores with two threads each, numbered as most machines do: threads of a core are four apart.
TEST(Topology, PackagesThenCachesThenCoresStandTogether) {
  const TempFolder system;
  for (int core = 0; core < 8; ++core) {
    const std::filesystem::path own = system / "cpu" / ("cpu" + std::to_string(core));
    const int package = core % 2, thread = core % 4;
    write(own / "topology/package_cpus_list", package == 0 ? "0,2,4,6" : "1,3,5,7");
    write(own / "topology/thread_siblings_list", std::to_string(thread) + "," + std::to_string(thread + 4));
    write(own / "cache/index2/level", "2");
    write(own / "cache/index2/shared_cpu_list", std::to_string(thread) + "," + std::to_string(thread + 4));
  }
  EXPECT_EQ(beside_each_other({0, 1, 2, 3, 4, 5, 6, 7}, system.path()), (std::vector<int>{0, 4, 2, 6, 1, 5, 3, 7}));
  EXPECT_EQ(beside_each_other({1, 2, 6}, system.path()), (std::vector<int>{2, 6, 1}));
}

TEST(Topology, MemoryDividesAPackageAndCachesANode) {
  const TempFolder system;
  for (int core = 0; core < 4; ++core) {
    const std::filesystem::path own = system / "cpu" / ("cpu" + std::to_string(core));
    write(own / "topology/package_cpus_list", "0-3");
    write(own / ("node" + std::to_string(core % 2)) / "meminfo", "");
    write(own / "cache/index3/level", "3");
    write(own / "cache/index3/shared_cpu_list", std::to_string(core));
  }
  write(system / "node/node0/cpulist", "0,2");
  write(system / "node/node1/cpulist", "1,3");
  EXPECT_EQ(beside_each_other({0, 1, 2, 3}, system.path()), (std::vector<int>{0, 2, 1, 3}));
}

TEST(Topology, WithoutTheKernelsFilesCoresKeepTheirOrder) {
  EXPECT_EQ(beside_each_other({3, 5, 9}, "/no/such/folder"), (std::vector<int>{3, 5, 9}));
}

TEST(Topology, SharesAreDisjointEvenAndComplete) {
  std::vector<int> cores(11);
  std::iota(cores.begin(), cores.end(), 5);
  for (int ranks = 1; ranks <= 11; ++ranks) {
    std::vector<int> all;
    for (int rank = 0; rank < ranks; ++rank) {
      const std::vector<int> share = share_of_cores(cores, rank, ranks);
      EXPECT_GE(std::ssize(share), 11 / ranks);
      EXPECT_LE(std::ssize(share), 11 / ranks + 1);
      all.insert(all.end(), share.begin(), share.end());
    }
    EXPECT_EQ(all, cores) << ranks;
  }
}

TEST(Topology, MoreRanksThanCoresShareThemAll) {
  const std::vector<int> cores{2, 4};
  for (int rank = 0; rank < 3; ++rank) EXPECT_EQ(share_of_cores(cores, rank, 3), cores);
}

TEST(Topology, AScopeKeepsTheThreadOnItsCores) {
  const std::vector<int> before = neighbouring_cores();
  {
    const ScopedCores scoped({before.back()});
    EXPECT_EQ(neighbouring_cores(), std::vector<int>{before.back()});
  }
  EXPECT_EQ(neighbouring_cores(), before);
}

}  // namespace
}  // namespace lockstep
