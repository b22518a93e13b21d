// What a training says when the machine has no more of something.

#include <dlfcn.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "app/program.h"
#include "app/train_command.h"
#include "base/shell.h"

namespace lockstep::app {
namespace {

class Exhaustion : public TrainCommand {
 protected:
  struct Ending {
    int code;
    std::string said;
  };
  /// The training of `run` behind what a shell does first.
  Ending train_after(const std::string& first, const std::string& run, std::vector<std::string> more = {}) const {
    std::vector<std::string> command = words(run, std::move(more));
    command.insert(command.begin(), program());
    const std::string out = (folder_ / "out").string();
    const std::string script = "exec >" + out + " 2>&1; " + first + " && exec timeout -k 5 100 " + shell_words(command);
    const int status = std::system(script.c_str());
    return {WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status), io::read_file(out)};
  }
};

TEST_F(Exhaustion, OfDescriptors) {
  int refused = 0;
  bool enough = false;
  for (int descriptors = 4; !enough && descriptors < 200; ++descriptors) {
    const Ending ending = train_after(fmt::format("ulimit -n {}", descriptors), fmt::format("files{}", descriptors));
    enough = ending.code == 0;
    if (enough) continue;
    if (ending.said.find("error while loading shared libraries") != std::string::npos) continue;  // the program has not begun
    ++refused;
    EXPECT_TRUE(ending.code == 1 || ending.code == 2) << ending.said;
    EXPECT_NE(ending.said.find("Too many open files"), std::string::npos) << ending.said;
  }
  EXPECT_TRUE(enough);
  EXPECT_GE(refused, 1) << "one of them is too few";
}

TEST_F(Exhaustion, OfAddressSpace) {
  for (const char* sanitizer : {"__asan_init", "__tsan_init"}) {
    if (dlsym(RTLD_DEFAULT, sanitizer) != nullptr) GTEST_SKIP() << "a sanitizer takes all address space";
  }
  const Ending ending = train_after("ulimit -v 300000", "memory", {"model.n_embd=1024", "model.n_head=16"});
  EXPECT_EQ(ending.code, 1) << ending.said;
  EXPECT_NE(ending.said.find("no memory: "), std::string::npos) << ending.said;
  EXPECT_NE(ending.said.find(" bytes could not be had"), std::string::npos) << ending.said;
}

TEST_F(Exhaustion, OfAFileSystem) {
  if (std::system("unshare -m true >/dev/null 2>&1") != 0) GTEST_SKIP() << "this user cannot mount";
  const std::string small = (folder_ / "small").string();
  std::filesystem::create_directory(small);
  // The checkpoint needs more than is there.
  std::vector<std::string> command = words("small/run", {"model.n_embd=128"});
  command.insert(command.begin(), program());
  const std::string out = (folder_ / "out").string();
  const std::string inside = "mount -t tmpfs -o size=1m none " + small + " && exec timeout -k 5 100 " + shell_words(command);
  const int status = std::system(("unshare -m sh -c " + shell_words({inside}) + " >" + out + " 2>&1").c_str());
  const std::string said = io::read_file(out);
  EXPECT_EQ(WEXITSTATUS(status), 2) << said;
  EXPECT_NE(said.find("small/run"), std::string::npos) << said;
  EXPECT_NE(said.find("a checkpoint needs "), std::string::npos) << said;
  EXPECT_NE(said.find("free some space"), std::string::npos) << said;
  EXPECT_EQ(said.find("\nstep "), std::string::npos) << "nothing is trained first: " << said;
}

}  // namespace
}  // namespace lockstep::app
