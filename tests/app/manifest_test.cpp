#include "app/manifest.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "io/file.h"
#include "support/temp_folder.h"

namespace lockstep::app {
namespace {

class Environment {
 public:
  Environment(const char* name, const char* value) : name_(name) { setenv(name, value, 1); }
  ~Environment() { unsetenv(name_); }
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;

 private:
  const char* name_;
};

int run(const std::string& command) { return std::system((command + " >/dev/null 2>&1").c_str()); }

TEST(Manifest, SaysWhatTheRunRanOn) {
  const Environment plain("LOCKSTEP_TEST_PLAIN", "a=b"), secret("LOCKSTEP_TEST_TOKEN", "hunter2");
  const Json manifest = environment_manifest({"lockstep", "train", "sample.prompt=a b"});
  EXPECT_EQ(manifest.at("command_line").array().size(), 3U);
  EXPECT_EQ(manifest.at("command_line").array()[2].string(), "sample.prompt=a b");
  for (const char* name : {"version", "compiler", "flags"}) EXPECT_NE(manifest.at("program").at(name).string(), "") << name;
  EXPECT_NE(manifest.at("program").at("flags").string().find("-ffp-contract=off"), std::string::npos);
  EXPECT_NE(manifest.at("host").at("name").string(), "");
  EXPECT_GE(manifest.at("host").at("cores").integer(), 1);
  EXPECT_FALSE(manifest.at("host").at("instruction_sets").array().empty());
  for (const auto& [name, version] : manifest.at("libraries").object()) EXPECT_NE(version.string(), "") << name;
  EXPECT_EQ(manifest.at("environment").at("LOCKSTEP_TEST_PLAIN").string(), "a=b");
  EXPECT_EQ(manifest.at("environment").at("LOCKSTEP_TEST_TOKEN").string(), "(hidden)");
  const std::string time = manifest.at("time").string();
  EXPECT_EQ(time.size(), 20U);
  EXPECT_EQ(time.back(), 'Z');
  EXPECT_EQ(Json::parse(manifest.dump(2)).dump(), manifest.dump());
}

TEST(Manifest, TheEnvironmentIsSorted) {
  const Json manifest = environment_manifest({});
  std::string before;
  for (const auto& [name, value] : manifest.at("environment").object()) {
    EXPECT_LT(before + "=", name + "=");
    before = name;
  }
}

TEST(Manifest, OutsideAGitTreeThereIsNoSource) {
  const TempFolder folder;
  const Environment ceiling("GIT_CEILING_DIRECTORIES", folder.path().parent_path().c_str());
  EXPECT_TRUE(source_state(folder.path()).is_null());
  EXPECT_TRUE(source_state("/no/such/folder's").is_null());
}

TEST(Manifest, InAGitTreeItHasCommitAndChanges) {
  const TempFolder folder;
  const std::string git = "git -C " + folder.path().string() + " -c user.name=a -c user.email=a@b ";
  if (run("git --version") != 0) GTEST_SKIP() << "git is not installed";
  ASSERT_EQ(run("git init " + folder.path().string()), 0);
  EXPECT_TRUE(source_state(folder.path()).is_null());  // nothing committed yet
  io::replace_file(folder / "file", "one\n");
  ASSERT_EQ(run(git + "add file"), 0);
  ASSERT_EQ(run(git + "commit -m one"), 0);
  EXPECT_EQ(source_state(folder.path()).at("commit").string().size(), 40U);
  EXPECT_EQ(source_state(folder.path()).at("uncommitted").string(), "");
  io::replace_file(folder / "file", "two\n");
  EXPECT_NE(source_state(folder.path()).at("uncommitted").string().find("+two"), std::string::npos);
}

}  // namespace
}  // namespace lockstep::app
