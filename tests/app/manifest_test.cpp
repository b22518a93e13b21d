#include "app/manifest.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

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

int run(const std::string& command) { return std::system(("timeout -k 5 100 " + command + " >/dev/null 2>&1").c_str()); }

TEST(Manifest, SaysWhatTheRunRanOn) {
  const Environment plain("LOCKSTEP_TEST_PLAIN", "a=b");
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
  const std::string time = manifest.at("time").string();
  EXPECT_EQ(time.size(), 20U);
  EXPECT_EQ(time.back(), 'Z');
  EXPECT_EQ(Json::parse(manifest.dump(2)).dump(), manifest.dump());
}

TEST(Manifest, OnlyListedVariablesAreStored) {
  const Environment unlisted("PGPASS", "hunter2"), also("OPENAI_KEY", "hunter2"), nameless("MY_SETTING", "hunter2");
  const Environment token("LOCKSTEP_TEST_TOKEN", "hunter2"), lower("OMPI_MCA_auth_cookie", "hunter2");
  const Environment url("LOCKSTEP_TEST_PROXY", "http://me:hunter2@proxy:3128/a?key=hunter2");
  const Environment known("OMP_NUM_THREADS", "3");
  const Json manifest = environment_manifest({"lockstep", "train", "data.file=https://me:hunter2@host/text"});
  EXPECT_EQ(manifest.dump().find("hunter2"), std::string::npos) << manifest.dump(2);
  const Json& environment = manifest.at("environment");
  for (const char* name : {"PGPASS", "OPENAI_KEY", "MY_SETTING"}) EXPECT_EQ(environment.find(name), nullptr) << name;
  for (const char* name : {"LOCKSTEP_TEST_TOKEN", "OMPI_MCA_auth_cookie"}) EXPECT_EQ(environment.at(name).string(), "(hidden)");
  EXPECT_EQ(environment.at("LOCKSTEP_TEST_PROXY").string(), "http://proxy:3128/a");
  EXPECT_EQ(environment.at("OMP_NUM_THREADS").string(), "3");
  EXPECT_NE(environment.at("PATH").string(), "");
  EXPECT_EQ(manifest.at("command_line").array()[2].string(), "data.file=https://host/text");
}

TEST(Manifest, UrlsLoseTheirCredentials) {
  for (const auto& [text, expected] : std::vector<std::pair<std::string, std::string>>{
           {"no url: a@b?c", "no url: a@b?c"},
           {"https://host/a@b", "https://host/a@b"},
           {"a=https://u:p@q@host:1/x?t=1#f b=ftp://u@h c", "a=https://host:1/x b=ftp://h c"},
           {"s3://key@bucket", "s3://bucket"},
           {"http://host?token=1", "http://host"},
           {"://", "://"}}) {
    EXPECT_EQ(without_credentials(text), expected);
  }
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
