// What a folder of tokens holds when preparations fail, die, meet each other, or find files that are none of theirs.

#include "data/prepare/staging.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "data/corpus.h"
#include "data/prepare/dataset.h"
#include "data/prepare/prepare.h"
#include "data/support.h"
#include "data/verification.h"
#include "support/text.h"

namespace lockstep::data {
namespace {

namespace fs = std::filesystem;

struct Quiet {
  std::FILE* file = std::tmpfile();
  Log log{file};
  ~Quiet() { std::fclose(file); }
};

PrepareResult prepared(const Folder& folder, const std::string& input, const std::string& tokenizer = "char") {
  Quiet quiet;
  return prepare({.input = input,
                  .tokenizer = tokenizer,
                  .out = folder.path("out"),
                  .threads = 1,
                  .facts = quiet.file,
                  .progress = quiet.file},
                 quiet.log);
}

std::string text_of(const Folder& folder) {
  Quiet quiet;
  const Corpus corpus = open_corpus(folder.path("out"), {}, quiet.log);
  verify_corpus(folder.path("out"), std::array<const TokenFile*, 2>{&corpus.train, &corpus.val}, quiet.log);
  return decoded(corpus);
}

// Each state that a kill between two moves leaves behind is the new text, and the next preparation clears it away.
TEST(Staging, AKillWhileFilesMoveLosesNothing) {
  for (const std::vector<std::string>& waiting :
       {std::vector<std::string>{"tokens.json"}, {"val.bin", "tokens.json"}, {"train.bin", "val.bin", "tokens.json"}}) {
    const Folder folder;
    prepared(folder, folder.write("t.txt", "the old text, which is longer"));
    const std::string old = folder.read("out/tokens.json"), old_train = folder.read("out/train.bin"),
                      old_val = folder.read("out/val.bin");
    prepared(folder, folder.write("t.txt", "the new text"));
    fs::create_directory(folder.path("out/.prepared"));
    for (const std::string& name : waiting) {
      fs::rename(folder.path("out/" + name), folder.path("out/.prepared/" + name));
      folder.write("out/" + name, name == "tokens.json" ? old : name == "train.bin" ? old_train : old_val);
    }
    EXPECT_EQ(text_of(folder), "the new text");
    const std::string another = folder.write("t.txt", "the third text");
    prepared(folder, another);
    EXPECT_EQ(text_of(folder), "the third text");
    EXPECT_EQ(folder.listing("out"), "tokens.json train.bin val.bin");
  }
}

// A child is killed at a random time, over and over. The folder has the old text or the new one, and is never in the way.
TEST(Staging, AKillAtAnyTimeLeavesTheOldTextOrTheNewOne) {
  const Folder folder;
  const std::string one(300'000, 'a'), two(400'000, 'b');
  const std::array<std::string, 2> inputs{folder.write("1.txt", one + "x"), folder.write("2.txt", two + "y")};
  prepared(folder, inputs[0]);
  for (int round = 0; round < 24; ++round) {
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      prepared(folder, inputs[static_cast<std::size_t>(round % 2)]);
      ::_exit(0);
    }
    std::this_thread::sleep_for(std::chrono::microseconds(300 * round));
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
    const std::string text = text_of(folder);
    EXPECT_TRUE(text == one + "x" || text == two + "y") << round;
  }
  prepared(folder, inputs[0]);
  EXPECT_EQ(text_of(folder), one + "x");
  for (const fs::directory_entry& entry : fs::directory_iterator(folder.path("out")))
    EXPECT_FALSE(entry.is_directory()) << entry.path();
}

TEST(Staging, OnePreparationAtATime) {
  const Folder folder;
  Quiet quiet;
  const std::string input = folder.write("t.txt", "some text");
  {
    const FolderLock lock(folder.path("out"), 0, quiet.log);
    EXPECT_TRUE(contains(user_error([&] { prepared(folder, input); }), "another process is preparing " + folder.path("out")));
  }
  // Several starts of a run: one prepares, the others wait for it.
  std::vector<std::jthread> starts;
  for (int i = 0; i < 4; ++i) {
    starts.emplace_back([&] {
      Quiet own;
      ensure_dataset({.name = "mine", .folder = folder.path("out"), .file = input, .wait_seconds = 60}, own.log);
    });
  }
  starts.clear();
  EXPECT_EQ(text_of(folder), "some text");
  const FolderLock lock(folder.path("out"), 0, quiet.log);
  const std::string other = folder.write("other.txt", "another text");
  const DatasetRequest impatient{.name = "mine", .folder = folder.path("out"), .file = other, .wait_seconds = 0.1};
  EXPECT_TRUE(contains(user_error([&] { ensure_dataset(impatient, quiet.log); }), "another process is preparing"));
}

TEST(Staging, FilesThatNoPreparationMadeStay) {
  const Folder folder;
  const std::string input = folder.write("t.txt", "some text");
  folder.write("out/train.bin", "nanoGPT's");
  folder.write("out/notes", "mine");
  const std::string message = user_error([&] { prepared(folder, input); });
  EXPECT_TRUE(contains(message, folder.path("out/train.bin") + " is there, and no preparation made it")) << message;
  EXPECT_EQ(folder.read("out/train.bin"), "nanoGPT's");
  EXPECT_EQ(folder.listing("out"), "notes train.bin");
  fs::remove(folder.path("out/train.bin"));
  prepared(folder, input);
  EXPECT_EQ(folder.read("out/notes"), "mine");
  folder.write("out/tokenizer.json", "somebody's");
  prepared(folder, input);
  EXPECT_EQ(folder.read("out/tokenizer.json"), "somebody's");
  EXPECT_TRUE(contains(user_error([&] { prepared(folder, input, "bpe:260"); }), "tokenizer.json is there"));
  folder.write("other/tokens.json", "{}");
  folder.write("out/tokens.json", "{\"of\": \"another program\"}");
  EXPECT_TRUE(contains(user_error([&] { prepared(folder, input); }), "tokens.json is there"));
}

// A description from elsewhere names files that are not its own.
TEST(Staging, NothingOutsideOfTheFolderIsReadOrDeleted) {
  const Folder folder;
  folder.write("victim/x.bin", "ab");
  folder.write("victim/x.mask.bin", "a");
  const std::string input = folder.write("t.txt", "some text");
  prepared(folder, input);
  const std::string good = folder.read("out/tokens.json");
  for (const std::string name : {"../victim/x.bin", "/etc/passwd", "..", "", ".hidden.bin", "a\\u001bb.bin"}) {
    std::string hostile = good;
    hostile.replace(hostile.find("train.bin"), 9, name);
    folder.write("out/tokens.json", hostile);
    EXPECT_TRUE(contains(user_error([&] { read_description(folder.path("out")); }), "is not the name of a file in its folder"));
    EXPECT_THROW(prepared(folder, input), UserError);
  }
  // A preparation may delete only those of a folder's own files whose names it gives itself.
  std::string greedy = good;
  greedy.replace(greedy.find("train.bin"), 9, "mine.bin");
  greedy.insert(greedy.find("\"mine.bin\""), "\"train.bin\": {\"tokens\": 8, \"text_bytes\": 8, \"sha256\": \"\"},");
  folder.write("out/tokens.json", greedy);
  folder.write("out/mine.bin", "mine");
  prepared(folder, input);
  EXPECT_EQ(folder.read("out/mine.bin"), "mine");
  EXPECT_EQ(folder.read("victim/x.bin"), "ab");
}

TEST(Staging, KnowsTheNamesThatAPreparationGives) {
  for (const char* name : {"train.bin", "val.bin", "train.mask.bin", "train-00001-of-00004.bin", "train-00001-of-00004.mask.bin"})
    EXPECT_TRUE(is_prepared_name(name)) << name;
  for (const char* name : {"", "bin", ".bin", "test.bin", "train-1-of-4.bin", "train-0000x-of-00004.bin", "input.txt"})
    EXPECT_FALSE(is_prepared_name(name)) << name;
}

TEST(Dataset, IsRecognisedByItsContent) {
  const Folder folder;
  Quiet quiet;
  const DatasetRequest request{.name = "mine", .folder = folder.path("out"), .file = folder.write("t.txt", "some text")};
  ensure_dataset(request, quiet.log);
  folder.write("t.txt", "more text");  // of the same length
  ensure_dataset(request, quiet.log);
  EXPECT_EQ(text_of(folder), "more text");
  const auto written = fs::last_write_time(folder.path("out/tokens.json"));
  ensure_dataset(request, quiet.log);
  EXPECT_EQ(fs::last_write_time(folder.path("out/tokens.json")), written);
}

TEST(Prepare, ATextMayComeFromAPipe) {
  const Folder folder;
  const std::string pipe = folder.path("pipe");
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  std::jthread writer([&] {
    std::FILE* file = std::fopen(pipe.c_str(), "w");
    std::fputs("from a pipe", file);
    std::fclose(file);
  });
  prepared(folder, pipe);
  EXPECT_EQ(text_of(folder), "from a pipe");
  EXPECT_EQ(folder.listing("out"), "tokens.json train.bin val.bin");
}

// The writer changes bytes that both passes know, as fast as it can. The last one stays: the text never repeats one character.
TEST(Prepare, ATextThatChangesMeanwhileIsNoticed) {
  const Folder folder;
  std::string text(8'000'000, 'a');
  text += "b";
  const std::string input = folder.write("t.txt", text);
  int noticed = 0;
  for (int round = 0; round < 20 && noticed == 0; ++round) {
    std::atomic<bool> done = false;
    std::jthread writer([&] {
      io::File file = io::File::open_to_write(input);
      for (char c = 'a'; !done; c = c == 'a' ? 'b' : 'a')
        for (std::uint64_t at = 0; at < text.size() - 1; at += 1'000'000) file.write_at(at, std::as_bytes(std::span(&c, 1)));
    });
    try {
      prepared(folder, input);
    } catch (const UserError& error) {
      EXPECT_TRUE(contains(error.what(), input + " changed while it was read")) << error.what();
      ++noticed;
    }
    done = true;
  }
  EXPECT_EQ(noticed, 1);
}

class Verification : public testing::Test {
 protected:
  void SetUp() override { prepared(folder_, folder_.write("t.txt", "some text to verify, some of it twice")); }
  void age(const std::string& name) const {
    fs::last_write_time(folder_.path(name), fs::file_time_type::clock::now() - std::chrono::hours(1));
  }
  std::string verify() const {
    Quiet quiet;
    const std::array<std::string, 2> names{"train.bin", "val.bin"};
    try {
      verify_files(folder_.path("out"), read_description(folder_.path("out")).value(), names, quiet.log);
    } catch (const UserError& error) {
      return error.what();
    }
    return "";
  }
  Folder folder_;
};

TEST_F(Verification, NoticesAnotherFileOfTheSameLength) {
  EXPECT_EQ(verify(), "");
  std::string bytes = folder_.read("out/val.bin");
  bytes[0] = static_cast<char>(bytes[0] ^ 1);
  folder_.write("out/val.bin", bytes);
  EXPECT_TRUE(contains(verify(), folder_.path("out/val.bin") + " is not the file that tokens.json describes"));
}

TEST_F(Verification, IsDoneOnceForAFileAsItIs) {
  age("out/train.bin");
  EXPECT_EQ(verify(), "");
  EXPECT_EQ(folder_.listing("out"), ".train.bin.verified tokens.json train.bin val.bin");  // val.bin has just been written
  const auto before = fs::last_write_time(folder_.path("out/train.bin"));
  std::string bytes = folder_.read("out/train.bin");
  bytes[0] = static_cast<char>(bytes[0] ^ 1);
  folder_.write("out/train.bin", bytes);
  fs::last_write_time(folder_.path("out/train.bin"), before);
  EXPECT_EQ(verify(), "") << "same size, time and inode: not read again";
  age("out/train.bin");
  EXPECT_TRUE(contains(verify(), "train.bin is not the file")) << "another time";
}

TEST_F(Verification, AStampOfSomethingElseIsNotBelieved) {
  age("out/train.bin");
  for (const char* stamp : {"", "{}", "null", "[1"}) {
    folder_.write("out/.train.bin.verified", stamp);
    EXPECT_EQ(verify(), "");
    EXPECT_TRUE(contains(folder_.read("out/.train.bin.verified"), "modified_ns"));
  }
}

}  // namespace
}  // namespace lockstep::data
