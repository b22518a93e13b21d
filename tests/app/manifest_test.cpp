#include "app/folder/manifest.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <regex>
#include <string>
#include <utility>
#include <vector>

#include "app/cli/commit.h"
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
  const std::string flags = manifest.at("program").at("flags").string();
  EXPECT_NE(flags.find("-ffp-contract=off"), std::string::npos);
  EXPECT_EQ(flags.find('$'), std::string::npos) << flags;  // what CMake has not worked out
  EXPECT_EQ(manifest.at("program").at("commit").string(), built_commit());
  EXPECT_EQ(manifest.at("program").at("dirty").boolean(), built_dirty());
  EXPECT_EQ(manifest.find("source"), nullptr);
  EXPECT_TRUE(std::regex_match(manifest.at("host").at("memory").string(), std::regex(R"(\d+\.\d\d [MGT]iB)")))
      << manifest.at("host").at("memory").string();
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

/// What the build's script writes of a folder.
class BuiltFrom : public testing::Test {
 protected:
  void SetUp() override {
    if (run("git --version") != 0 || run("cmake --version") != 0) GTEST_SKIP() << "git or cmake is not installed";
  }
  std::string written() const {
    EXPECT_EQ(run("cmake -DSOURCE=" + source_ + " -DOUT=" + out_ + " -P cmake/Commit.cmake"), 0);
    return io::read_file(out_);
  }
  int git(const std::string& words) const { return run("git -C " + source_ + " -c user.name=a -c user.email=a@b " + words); }
  bool says(const std::string& commit, bool dirty) const {
    const std::string text = written();
    return text.find("return \"" + commit + "\"") != std::string::npos &&
           text.find(dirty ? "return true" : "return false") != std::string::npos;
  }

  TempFolder folder_;
  std::string source_ = (folder_ / "source").string(), out_ = (folder_ / "commit.cpp").string();
};

TEST_F(BuiltFrom, ATarballHasNoCommitNotEvenInsideARepository) {
  io::make_folders(source_);
  ASSERT_EQ(run("git init " + folder_.path().string()), 0);
  EXPECT_TRUE(says("unknown", false));
}

TEST_F(BuiltFrom, ARepositoryHasItsCommitAndChanges) {
  ASSERT_EQ(run("git init " + source_), 0);
  EXPECT_TRUE(says("unknown", false));  // nothing is committed yet
  io::make_folders(source_ + "/src");
  io::replace_file(source_ + "/src/file", "one\n");
  ASSERT_EQ(git("add src"), 0);
  ASSERT_EQ(git("commit -m one"), 0);
  const std::string first = written();
  EXPECT_TRUE(std::regex_search(first, std::regex("return \"[0-9a-f]{40}\""))) << first;
  EXPECT_NE(first.find("return false"), std::string::npos) << first;
  const auto time = std::filesystem::last_write_time(out_);
  EXPECT_EQ(written(), first);
  EXPECT_EQ(std::filesystem::last_write_time(out_), time);  // so that nothing is compiled again
  {
    const Environment elsewhere("GIT_DIR", "/nowhere");  // as a hook that builds has it
    EXPECT_EQ(written(), first);
  }
  io::replace_file(source_ + "/notes", "a file beside the sources\n");
  EXPECT_EQ(written(), first);
  io::replace_file(source_ + "/src/new", "a source\n");
  EXPECT_NE(written().find("return true"), std::string::npos);
  std::filesystem::remove(source_ + "/src/new");
  io::replace_file(source_ + "/src/file", "two\n");
  EXPECT_NE(written().find("return true"), std::string::npos);
  const std::string shallow = (folder_ / "shallow").string();
  ASSERT_EQ(run("git clone --depth 1 file://" + source_ + " " + shallow), 0);
  source_ = shallow;
  EXPECT_EQ(written(), first);
}

}  // namespace
}  // namespace lockstep::app
