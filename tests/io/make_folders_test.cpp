// New folders last: those above them are brought to the device.

#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <mutex>
#include <set>

#include "io/file.h"
#include "support/temp_folder.h"

namespace {

// What fsync() was asked for, by path; the program's own function goes before the C library's.
std::set<std::string>& synced() {
  static std::set<std::string> all;
  return all;
}

}  // namespace

extern "C" int fsync(int descriptor) {
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  std::error_code unknown;
  synced().insert(std::filesystem::read_symlink("/proc/self/fd/" + std::to_string(descriptor), unknown).string());
  return static_cast<int>(syscall(SYS_fsync, descriptor));
}

namespace lockstep::io {
namespace {

TEST(MakeFolders, FoldersAboveNewOnesAreSynced) {
  const TempFolder temp;
  const std::string top = std::filesystem::canonical(temp.path()).string();
  synced().clear();
  make_folders(temp / "a/b/c");
  EXPECT_TRUE(synced().contains(top));
  EXPECT_TRUE(synced().contains(top + "/a"));
  EXPECT_TRUE(synced().contains(top + "/a/b"));
  synced().clear();
  make_folders(temp / "a/b/c");
  EXPECT_TRUE(synced().empty());
}

}  // namespace
}  // namespace lockstep::io
