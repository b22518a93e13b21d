#include "io/cpu_quota.h"

#include <gtest/gtest.h>

#include "support/temp_folder.h"

namespace lockstep::io {
namespace {

class CpuQuota : public testing::Test {
 protected:
  void write(const Path& file, std::string_view text) const {
    make_folders(folder_of(root_ / file.string()));
    replace_file(root_ / file.string(), text);
  }
  std::optional<double> quota() const { return cpu_quota(root_.path()); }
  TempFolder root_;
};

TEST_F(CpuQuota, IsTheLeastOfTheGroupsAbove) {
  write("proc/self/cgroup", "0::/jobs/mine\n");
  write("sys/fs/cgroup/jobs/mine/cpu.max", "max 100000\n");
  EXPECT_EQ(quota(), std::nullopt);
  write("sys/fs/cgroup/jobs/cpu.max", "150000 100000\n");
  EXPECT_EQ(quota(), 1.5);
  write("sys/fs/cgroup/jobs/mine/cpu.max", "50000 100000\n");
  EXPECT_EQ(quota(), 0.5);
}

TEST_F(CpuQuota, OfTheFirstVersionAndOfAContainerIsKnownToo) {
  write("proc/self/cgroup", "5:memory:/a\n4:cpu,cpuacct:/of/the/host\nmalformed\n");
  write("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n");
  write("sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(quota(), std::nullopt);
  write("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "200000\n");
  EXPECT_EQ(quota(), 2);
}

TEST_F(CpuQuota, ThatIsNotToldIsNone) { EXPECT_EQ(quota(), std::nullopt); }

}  // namespace
}  // namespace lockstep::io
