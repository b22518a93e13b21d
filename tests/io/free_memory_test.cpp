// What the kernel and control groups of both versions leave, as their files say it.

#include "io/free_memory.h"

#include <gtest/gtest.h>

#include "support/temp_folder.h"

namespace lockstep::io {
namespace {

constexpr std::int64_t kGiB = std::int64_t{1} << 30;

class Machine {
 public:
  Machine() {
    write("proc/meminfo", "MemTotal:       16777216 kB\nMemFree:  1 kB\nMemAvailable:    8388608 kB\nSwapFree: 99999999 kB\n");
  }
  void write(const std::string& path, const std::string& text) {
    make_folders((folder_ / path).parent_path());
    replace_file(folder_ / path, text);
  }
  std::int64_t free() const { return free_memory(folder_.path()).value_or(FreeMemory{-1, ""}).bytes; }
  std::string source() const { return free_memory(folder_.path()).value().source; }
  const Path& root() const { return folder_.path(); }

 private:
  TempFolder folder_;
};

TEST(FreeMemory, IsWhatTheKernelCallsAvailable) {
  const Machine machine;
  EXPECT_EQ(machine.free(), 8 * kGiB);
  EXPECT_EQ(machine.source(), "MemAvailable of /proc/meminfo");
  EXPECT_EQ(memory_of_machine(machine.root()), 16 * kGiB);
  EXPECT_FALSE(free_memory(machine.root() / "nowhere").has_value());
  EXPECT_FALSE(memory_of_machine(machine.root() / "nowhere").has_value());
  EXPECT_GT(free_memory().value().bytes, 0);  // here
}

TEST(FreeMemory, ALimitOfVersionTwoCountsWithItsParents) {
  Machine machine;
  machine.write("proc/self/cgroup", "0::/jobs/mine\n");
  machine.write("sys/fs/cgroup/jobs/mine/memory.max", "max\n");
  machine.write("sys/fs/cgroup/jobs/mine/memory.current", "1073741824\n");
  EXPECT_EQ(machine.free(), 8 * kGiB);
  machine.write("sys/fs/cgroup/jobs/memory.max", "4294967296\n");
  machine.write("sys/fs/cgroup/jobs/memory.current", "2147483648\n");
  EXPECT_EQ(machine.free(), 2 * kGiB);
  EXPECT_EQ(machine.source(), "the control group's memory.max");
  machine.write("sys/fs/cgroup/jobs/memory.stat", "anon 1\nfile 5\ninactive_file 536870912\nactive_file 536870912\nshmem 4\n");
  EXPECT_EQ(machine.free(), 3 * kGiB);  // pages of files make room
  machine.write("sys/fs/cgroup/jobs/mine/memory.max", "1073741824\n");
  EXPECT_EQ(machine.free(), 0);
}

// The path of a container's group is one of its host's, and its limit stands at the mount.
TEST(FreeMemory, ALimitOfVersionOneCounts) {
  Machine machine;
  machine.write("proc/self/cgroup", "12:cpu,cpuacct:/x\n5:memory:/docker/1234\n1:name=systemd:/x\n");
  machine.write("sys/fs/cgroup/memory/memory.limit_in_bytes", "3221225472\n");
  machine.write("sys/fs/cgroup/memory/memory.usage_in_bytes", "2147483648\n");
  machine.write("sys/fs/cgroup/memory/memory.stat", "inactive_file 7\ntotal_inactive_file 1073741824\n");
  EXPECT_EQ(machine.free(), 2 * kGiB);
  EXPECT_EQ(machine.source(), "the control group's memory.limit_in_bytes");
  machine.write("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");  // none
  EXPECT_EQ(machine.free(), 8 * kGiB);
}

}  // namespace
}  // namespace lockstep::io
