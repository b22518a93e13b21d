#include "data/prepare/dataset.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>

#include "data/corpus.h"
#include "data/support.h"
#include "data/token_description.h"
#include "io/file.h"
#include "support/http_server.h"
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

/// For as long as it lives no program is found: nothing is downloaded.
class NoPrograms {
 public:
  NoPrograms() { setenv("PATH", "/nowhere", 1); }
  ~NoPrograms() { setenv("PATH", path_.c_str(), 1); }
  NoPrograms(const NoPrograms&) = delete;
  NoPrograms& operator=(const NoPrograms&) = delete;

 private:
  std::string path_ = std::getenv("PATH");
};

bool has_curl() { return std::system("curl --version >/dev/null 2>&1") == 0; }

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

// Who trains on a file has not typed options of prepare.
TEST(Dataset, SaysWhoseOptionsAreMissing) {
  const Folder folder;
  const std::string chat = R"({"messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "A"}]})",
                    pair = R"({"prompt": "a", "chosen": "b", "rejected": "c"})";
  for (const std::string& row : {chat, pair}) {
    const std::string file = folder.write("t.jsonl", row + "\n" + row + "\n");
    const std::string said = ensure_error({.folder = folder.path("set"), .file = file});
    EXPECT_TRUE(contains(said, "prepare " + file + " --out " + folder.path("set"))) << said;
  }
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
  const NoPrograms none;
  ensure_dataset({.folder = request.folder}, quiet.log);
  EXPECT_EQ(std::filesystem::last_write_time(request.folder / "tokens.json"), written);
  folder.write("other/train.bin", "ab");
  EXPECT_NO_THROW(ensure_dataset({.folder = folder.path("other")}, quiet.log));
}

TEST(Dataset, DownloadsShakespeare) {
  const std::filesystem::path text = test_data("tinyshakespeare.txt");
  if (!std::filesystem::exists(text)) GTEST_SKIP() << "no " << text << ": set LOCKSTEP_TEST_DATA";
  if (!has_curl()) GTEST_SKIP() << "no curl";
  const Folder folder;
  Quiet quiet;
  const std::string content = io::read_file(text);
  const support::HttpServer server(
      [&](const support::HttpAsked&, const support::HttpConnection& to) { to.answer(200, "text/plain", content); });
  ensure_dataset({.folder = folder.path("set"), .url = server.url()}, quiet.log);
  EXPECT_EQ(characters(folder.path("set")), 1115394);
  EXPECT_EQ(folder.listing("set"), "input.txt tokens.json train.bin val.bin");
}

TEST(Dataset, UsesTheTextThatIsInTheFolder) {
  const Folder folder;
  Quiet quiet;
  folder.write("set/input.txt", "to be or not to be");
  const NoPrograms none;
  ensure_dataset({.folder = folder.path("set")}, quiet.log);
  EXPECT_EQ(characters(folder.path("set")), 18);
}

TEST(Dataset, SaysWhatToDoWithoutANetwork) {
  const Folder folder;
  {
    const NoPrograms none;
    const std::string no_curl = ensure_error({.folder = folder.path("set")});
    EXPECT_TRUE(contains(no_curl, "the program curl cannot be run")) << no_curl;
    EXPECT_TRUE(contains(no_curl, "data.file=")) << no_curl;
  }
  if (!has_curl()) GTEST_SKIP() << "no curl";
  const support::HttpServer server(
      [](const support::HttpAsked&, const support::HttpConnection& to) { to.answer(404, "text/plain", "gone"); });
  const std::string failed = ensure_error({.folder = folder.path("set"), .url = server.url() + "/text?key=secret"});
  EXPECT_TRUE(contains(failed, server.url() + "/text answers 404")) << failed;
  EXPECT_FALSE(contains(failed, "secret")) << failed;
  EXPECT_TRUE(contains(failed, "data.file=")) << failed;
  EXPECT_EQ(folder.listing(), "");
}

TEST(Dataset, RefusesAnotherTextThanShakespeare) {
  if (!has_curl()) GTEST_SKIP() << "no curl";
  const Folder folder;
  const support::HttpServer portal(
      [](const support::HttpAsked&, const support::HttpConnection& to) { to.answer(200, "text/html", "<html>"); });
  const std::string text = ensure_error({.folder = folder.path("set"), .url = portal.url()});
  EXPECT_TRUE(contains(text, "not Tiny Shakespeare")) << text;
  EXPECT_EQ(folder.listing(), "");
}

TEST(Dataset, OfABadTextIsToldAsACommandAndLeavesNothing) {
  const Folder folder;
  const io::Path latin = folder.write("latin.txt", "caf\xe9");
  const std::string text = ensure_error({.folder = folder.path("set"), .file = latin.string()});
  EXPECT_TRUE(contains(text, "--tokenizer byte. These are options of ")) << text;
  EXPECT_TRUE(contains(text, "prepare " + latin.string() + " --out " + folder.path("set"))) << text;
  EXPECT_EQ(folder.listing(), "latin.txt");
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
