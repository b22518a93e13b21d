#include "data/prepare/dataset.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <filesystem>
#include <string>

#include "data/corpus.h"
#include "data/support.h"
#include "data/token_description.h"
#include "support/test_data.h"
#include "support/text.h"

namespace lockstep::data {
namespace {

// A Log that is not read.
struct Quiet {
  std::FILE* file = std::tmpfile();
  Log log{file};
  ~Quiet() { std::fclose(file); }
};

std::string ensure_error(const DatasetRequest& request) {
  Quiet quiet;
  return user_error([&] { ensure_dataset(request, quiet.log); });
}

std::int64_t characters(const io::Path& folder) { return read_description(folder).value().characters; }

TEST(Dataset, IsPreparedFromALocalFile) {
  const Folder folder;
  Quiet quiet;
  DatasetRequest request{.name = "mine", .folder = folder.path("mine"), .file = folder.write("t.txt", "some text")};
  ensure_dataset(request, quiet.log);
  EXPECT_EQ(characters(request.folder), 9);
  request.file = folder.write("longer.txt", "some longer text");
  ensure_dataset(request, quiet.log);
  EXPECT_EQ(characters(request.folder), 16);
}

TEST(Dataset, HasTheCharactersOfASmallTextAndALargeOnesOwnWords) {
  const Folder folder;
  Quiet quiet;
  std::string text;
  for (std::uint32_t i = 0; text.size() <= 5'000'000; ++i) text += fmt::format("{} ", i * 2654435761U);
  EXPECT_EQ(own_tokenizer(folder.write("large.txt", text)).name, "bpe:4096");
  text.resize(5'000'000);
  EXPECT_EQ(own_tokenizer(folder.write("small.txt", text)).name, "char");
}

TEST(Dataset, StaysWhenItIsThere) {
  const Folder folder;
  Quiet quiet;
  const DatasetRequest request{.folder = folder.path("set"), .file = folder.write("t.txt", "some text")};
  ensure_dataset(request, quiet.log);
  const auto written = std::filesystem::last_write_time(request.folder / "tokens.json");
  ensure_dataset(request, quiet.log);
  ensure_dataset({.folder = request.folder, .curl = "no-such-program"}, quiet.log);
  EXPECT_EQ(std::filesystem::last_write_time(request.folder / "tokens.json"), written);
  folder.write("other/train.bin", "ab");
  EXPECT_NO_THROW(ensure_dataset({.folder = folder.path("other"), .curl = "no-such-program"}, quiet.log));
}

TEST(Dataset, DownloadsShakespeare) {
  const std::filesystem::path text = test_data("tinyshakespeare.txt");
  if (!std::filesystem::exists(text)) GTEST_SKIP() << "no " << text << ": set LOCKSTEP_TEST_DATA";
  const Folder folder;
  Quiet quiet;
  try {
    ensure_dataset({.folder = folder.path("set"), .url = "file://" + std::filesystem::canonical(text).string()}, quiet.log);
  } catch (const UserError& error) {
    if (contains(error.what(), "cannot be run")) GTEST_SKIP() << error.what();
    throw;
  }
  EXPECT_EQ(characters(folder.path("set")), 1115394);
  EXPECT_EQ(folder.listing("set"), "input.txt tokens.json train.bin val.bin");
}

TEST(Dataset, UsesTheTextThatIsInTheFolder) {
  const Folder folder;
  Quiet quiet;
  folder.write("set/input.txt", "to be or not to be");
  ensure_dataset({.folder = folder.path("set"), .curl = "no-such-program"}, quiet.log);
  EXPECT_EQ(characters(folder.path("set")), 18);
}

TEST(Dataset, SaysWhatToDoWithoutANetwork) {
  const Folder folder;
  const std::string no_curl = ensure_error({.folder = folder.path("set"), .curl = "no-such-program"});
  EXPECT_TRUE(contains(no_curl, "no-such-program cannot be run")) << no_curl;
  EXPECT_TRUE(contains(no_curl, "data.file=")) << no_curl;
  const std::string failed = ensure_error({.folder = folder.path("set"), .curl = "false"});
  EXPECT_TRUE(contains(failed, "false ended with 1")) << failed;
  EXPECT_TRUE(contains(failed, "data.file=")) << failed;
  EXPECT_EQ(folder.listing("set"), "");
}

TEST(Dataset, RefusesAnotherTextThanShakespeare) {
  const Folder folder;
  // Stands for curl: writes a page of a captive portal to the file behind -o.
  const std::string portal =
      folder.write("portal", "#!/bin/sh\nwhile [ \"$1\" != -o ]; do shift; done\necho '<html>' > \"$2\"\n");
  std::filesystem::permissions(portal, std::filesystem::perms::owner_all);
  const std::string text = ensure_error({.folder = folder.path("set"), .curl = portal});
  EXPECT_TRUE(contains(text, "not Tiny Shakespeare")) << text;
  EXPECT_EQ(folder.listing("set"), "");
}

TEST(Dataset, ADownloadHasItsDeadlines) {
  const Folder folder;
  const std::string curl = folder.write("curl", "#!/bin/sh\necho \"$@\" >&2\nexit 28\n");
  std::filesystem::permissions(curl, std::filesystem::perms::owner_all);
  const std::string text = ensure_error({.folder = folder.path("set"), .curl = curl});
  for (const char* part : {"--connect-timeout 15", "--speed-limit 1 --speed-time 60", "--max-time 3600"})
    EXPECT_TRUE(contains(text, part)) << text;
}

TEST(Dataset, RefusesAnUnknownName) {
  const Folder folder;
  const std::string text = ensure_error({.name = "openwebtext", .folder = folder.path("owt")});
  EXPECT_TRUE(contains(text, "openwebtext")) << text;
  EXPECT_TRUE(contains(text, "lockstep prepare TEXT --out " + folder.path("owt"))) << text;
  EXPECT_TRUE(contains(ensure_error({.folder = folder.path("owt"), .file = folder.path("none.txt")}), "none.txt"));
}

}  // namespace
}  // namespace lockstep::data
