#include "io/plugin.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "support/temp_folder.h"

namespace lockstep::test {
namespace {

class PluginFolder : public testing::Test {
 protected:
  void SetUp() override { setenv("LOCKSTEP_PLUGINS", folder_.path().c_str(), 1); }
  void TearDown() override { unsetenv("LOCKSTEP_PLUGINS"); }

  void expect_problem(const std::string& text, bool loads = true) const {
    const io::Plugin plugin = io::open_plugin("example");
    EXPECT_EQ(plugin.object, nullptr);
    EXPECT_EQ(plugin.loads, loads);
    EXPECT_NE(plugin.problem.find(text), std::string::npos) << plugin.problem;
  }

  const TempFolder folder_;
  const std::filesystem::path file_ = folder_ / "lockstep-example.so";
};

TEST_F(PluginFolder, WithoutTheFileItIsNamed) { expect_problem("there is no lockstep-example.so in " + folder_.path().string()); }

TEST_F(PluginFolder, WhatDoesNotLoadSaysWhy) {
  std::ofstream(file_) << "no shared object, but a text of some length that a loader may read";
  expect_problem(file_.string() + " does not load: ", false);
}

// Its entry has the program's version in its name.
TEST_F(PluginFolder, AnotherSharedObjectIsNoPlugin) {
  std::filesystem::path library;
  std::ifstream maps("/proc/self/maps");
  for (std::string word; maps >> word;)
    if (word.find("/libm.so") != std::string::npos) library = word;
  ASSERT_FALSE(library.empty());
  std::filesystem::create_symlink(library, file_);
  expect_problem(file_.string() + " is no plugin of this version of the program (it lacks lockstep_plugin_");
}

TEST(PluginPlaces, AreBesideTheProgramAndInItsLibraryFolder) {
  const std::filesystem::path here = std::filesystem::read_symlink("/proc/self/exe").parent_path();
  const std::string problem = io::open_plugin("example").problem;
  const std::string folders = here.string() + " or " + (here.parent_path() / "lib/lockstep").string();
  EXPECT_EQ(problem, "there is no lockstep-example.so in " + folders);
}

}  // namespace
}  // namespace lockstep::test
