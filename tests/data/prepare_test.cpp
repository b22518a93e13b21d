#include "data/prepare/prepare.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/text/utf8.h"
#include "data/corpus.h"
#include "data/plain_tokenizer_json.h"
#include "data/support.h"
#include "support/test_data.h"
#include "support/text.h"

namespace lockstep::data {
namespace {

std::string content_of(std::FILE* file) {
  std::string text(1 << 16, '\0');
  std::rewind(file);
  text.resize(std::fread(text.data(), 1, text.size(), file));
  return text;
}

// prepare() with its output caught.
struct PreparedText {
  std::string facts, log;
  PrepareResult result;

  PreparedText(const Folder& folder, const std::string& input, const std::string& tokenizer = "char", std::size_t threads = 0,
               std::FILE* standard_input = nullptr) {
    std::FILE* printed = std::tmpfile();
    std::FILE* lines = std::tmpfile();
    Log out(lines);
    const PrepareOptions options{.input = input,
                                 .tokenizer = tokenizer,
                                 .out = folder.path("out"),
                                 .threads = threads,
                                 .standard_input = standard_input,
                                 .facts = printed,
                                 .progress = lines};
    try {
      result = prepare(options, out);
    } catch (...) {
      std::fclose(printed);
      std::fclose(lines);
      throw;
    }
    facts = content_of(printed);
    log = content_of(lines);
    std::fclose(printed);
    std::fclose(lines);
  }
};

std::string prepare_error(const Folder& folder, const std::string& input, const std::string& tokenizer = "char") {
  return user_error([&] { PreparedText(folder, input, tokenizer); });
}

std::vector<std::int32_t> ids(const TokenFile& file) {
  std::vector<std::int32_t> all(static_cast<std::size_t>(file.tokens()));
  file.read(0, all);
  return all;
}

std::string text_of(const Folder& folder, const std::string& split) {
  Log log;
  const Corpus corpus = open_corpus(folder.path("out"), {}, log);
  return corpus.tokenizer->decode(ids(split == "train" ? corpus.train : corpus.val));
}

// Text of many lengths of code points, several pieces long.
std::string long_text() {
  const std::vector<std::string> words{"word ", "na\xC3\xAFve ", "\xE2\x82\xAC", "\xF0\x9F\x8E\xB2\xF0\x9F\x8E\xB2 ", "x\n"};
  std::string text;
  for (std::uint64_t i = 0; text.size() < 3'500'000; ++i) text += words[(i * 2654435761U >> 7) % words.size()];
  return text;
}

TEST(Prepare, PrintsTheFiveLines) {
  const Folder folder;
  std::string text;
  for (int i = 0; i < 1000; ++i) text += i % 3 == 0 ? "b" : i % 3 == 1 ? "a" : "\n";
  const PreparedText run(folder, folder.write("t.txt", text));
  EXPECT_EQ(run.facts,
            "length of dataset in characters: 1,000\n"
            "all the unique characters: \nab\n"
            "vocab size: 3\n"
            "train has 900 tokens\n"
            "val has 100 tokens\n");
  EXPECT_EQ(folder.listing(), "out t.txt");
  EXPECT_EQ(text_of(folder, "train") + text_of(folder, "val"), text);
}

TEST(Prepare, TinyShakespeareHasTheKnownHashes) {
  const std::filesystem::path corpus_path = test_data("tinyshakespeare.txt");
  if (!std::filesystem::exists(corpus_path)) GTEST_SKIP() << "no " << corpus_path << ": set LOCKSTEP_TEST_DATA";
  const Folder folder;
  const PreparedText run(folder, corpus_path.string());
  EXPECT_EQ(run.facts,
            "length of dataset in characters: 1,115,394\n"
            "all the unique characters: \n !$&',-.3:;?ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz\n"
            "vocab size: 65\n"
            "train has 1,003,854 tokens\n"
            "val has 111,540 tokens\n");
  const TokenDescription& description = run.result.description;
  EXPECT_EQ(description.find("train.bin")->sha256, "6ec305602a99ac2802745a134e1f5e33e2231b4855525b00b9aebb730ac2626f");
  EXPECT_EQ(description.find("val.bin")->sha256, "d37d30cc0c8327c270d493299c3dca54135f6d5f1c9ef60cda78076e311204b1");
  EXPECT_TRUE(damaged_files(folder.path("out"), description).empty());
  Log log;
  const Corpus corpus = open_corpus(folder.path("out"), {}, log);
  std::vector<std::int32_t> first(10);
  corpus.train.read(0, first);
  EXPECT_EQ(first, (std::vector<std::int32_t>{18, 47, 56, 57, 58, 1, 15, 47, 58, 47}));
  corpus.val.read(0, first);
  EXPECT_EQ(first, (std::vector<std::int32_t>{12, 0, 0, 19, 30, 17, 25, 21, 27, 10}));
}

TEST(Prepare, TinyShakespeareInGpt2Tokens) {
  const std::filesystem::path corpus_path = test_data("tinyshakespeare.txt"), vocabulary = test_data("gpt2");
  if (!std::filesystem::exists(corpus_path) || !std::filesystem::exists(vocabulary)) {
    GTEST_SKIP() << "no " << corpus_path << " or no " << vocabulary << ": set LOCKSTEP_TEST_DATA";
  }
  const Folder folder;
  const PreparedText run(folder, corpus_path.string(), "gpt2:" + vocabulary.string());
  EXPECT_TRUE(contains(run.facts, "vocab size: 50,257\ntrain has 301,966 tokens\nval has 36,059 tokens\n")) << run.facts;
  EXPECT_EQ(folder.listing("out"), "tokenizer.json tokens.json train.bin val.bin");
  EXPECT_EQ(text_of(folder, "train") + text_of(folder, "val"), Folder::contents(corpus_path));
}

// The tokenizer.json of an earlier preparation is read to make another, and goes when it is no longer true.
TEST(Prepare, KeepsACopyOfTheTokenizer) {
  const Folder folder;
  const Json tokenizer = Json::parse(Folder::contents("tests/golden/data/tokens.json")).at("small").array()[2].at("tokenizer");
  const std::string file = folder.write("tokenizer.json", tokenizer.dump(2)), text = folder.write("t.txt", long_text());
  const PreparedText first(folder, text, "hf:" + file);
  const std::string hash = first.result.description.find("train.bin")->sha256;
  std::filesystem::remove(file);
  EXPECT_EQ(text_of(folder, "train") + text_of(folder, "val"), long_text());
  for (const std::size_t threads : {1, 3}) {
    const PreparedText again(folder, text, "hf:" + folder.path("out/tokenizer.json"), threads);
    EXPECT_EQ(again.result.description.find("train.bin")->sha256, hash);
  }
  Log log;
  const Corpus corpus = open_corpus(folder.path("out"), {}, log);
  const std::string train = text_of(folder, "train");
  std::vector<std::int32_t> whole(corpus.tokenizer->room(train.size()));
  std::string unknown;
  whole.resize(corpus.tokenizer->encode(train, whole, unknown));
  EXPECT_EQ(whole, ids(corpus.train)) << "the ids of the pieces are those of the whole";
  const PreparedText bytes(folder, text, "byte");
  EXPECT_EQ(folder.listing("out"), "tokens.json train.bin val.bin");
}

TEST(Prepare, TrainsABpeOnTheText) {
  std::optional<std::string> expected;
  for (const std::size_t threads : {1, 3}) {
    const Folder folder;
    const PreparedText run(folder, folder.write("t.txt", long_text()), "bpe:264", threads);
    EXPECT_EQ(run.result.description.format.vocabulary, 264);
    EXPECT_EQ(text_of(folder, "train") + text_of(folder, "val"), long_text());
    const std::string json = folder.read("out/tokenizer.json");
    if (!expected) expected = json;
    EXPECT_EQ(json, *expected);
    EXPECT_EQ(run.log, "");
  }
  const Folder folder;
  const PreparedText run(folder, folder.write("t.txt", "ab ab ab cd cd"), "bpe:1000");
  EXPECT_EQ(run.result.description.format.vocabulary, 261);
  EXPECT_TRUE(contains(run.log, "has 261 tokens, not 1,000")) << run.log;
  const PreparedText ends(folder, folder.write("e.txt", "a<|endoftext|>bcdefghijklmnop"), "bpe:257");
  EXPECT_EQ(ends.result.description.files[0].tokens + ends.result.description.files[1].tokens, 17);
}

TEST(Prepare, ATokenizerThatCannotBeReadLeavesNothing) {
  const Folder folder;
  const std::string text = folder.write("t.txt", "some text");
  EXPECT_TRUE(contains(prepare_error(folder, text, "hf:" + folder.path("none.json")), "none.json"));
  EXPECT_TRUE(
      contains(prepare_error(folder, text, "hf:" + folder.write("t.json", "{\"model\": {\"type\": \"Unigram\"}}")), "Unigram"));
  EXPECT_FALSE(std::filesystem::exists(folder.path("out")));
}

TEST(Prepare, PiecesAndThreadsChangeNothing) {
  const std::string text = long_text();
  for (const std::string tokenizer : {"char", "byte"}) {
    std::optional<std::string> expected;
    for (const std::size_t threads : {1, 2, 5}) {
      const Folder folder;
      const PreparedText run(folder, folder.write("t.txt", text), tokenizer, threads);
      const std::string json = to_json(run.result.description).dump();
      if (!expected) expected = json;
      EXPECT_EQ(json, *expected);
      EXPECT_EQ(text_of(folder, "train") + text_of(folder, "val"), text);
      EXPECT_TRUE(damaged_files(folder.path("out"), run.result.description).empty());
    }
  }
}

TEST(Prepare, TokenizersSplitTheSameText) {
  const std::string text = long_text();
  const Folder chars, bytes;
  const PreparedText by_char(chars, chars.write("t.txt", text), "char");
  const PreparedText by_byte(bytes, bytes.write("t.txt", text), "byte");
  EXPECT_EQ(text_of(chars, "val"), text_of(bytes, "val"));
  const TokenDescription& description = by_char.result.description;
  EXPECT_EQ(description.find("train.bin")->tokens, static_cast<std::int64_t>(static_cast<double>(description.characters) * 0.9));
  EXPECT_EQ(description.find("train.bin")->text_bytes, by_byte.result.description.find("train.bin")->tokens);
  EXPECT_EQ(description.find("val.bin")->text_bytes, by_byte.result.description.find("val.bin")->text_bytes);
  EXPECT_TRUE(contains(by_byte.facts, "vocab size: 256\n"));
}

TEST(Prepare, ManyCharactersTakeFourBytes) {
  std::string text;
  for (char32_t c = 0x20; c < 0x20 + 70000; ++c) {
    if (c < 0xD800 || c > 0xDFFF) append_utf8(text, c);
  }
  const Folder folder;
  const PreparedText run(folder, folder.write("t.txt", text));
  EXPECT_EQ(run.result.description.format.token_bytes, 4);
  EXPECT_EQ(run.result.description.format.vocabulary, 70000 - 2048);
  EXPECT_EQ(text_of(folder, "train") + text_of(folder, "val"), text);
}

TEST(Prepare, ReadsAFolderInOrderAndSaysWhatItSkips) {
  const Folder folder;
  folder.write("in/b.txt", "bbbb");
  folder.write("in/a/z.txt", "zzzz");
  folder.write("in/a/binary", std::string("ab\0cd", 5));
  folder.write("in/latin.txt", "caf\xE9 au lait");
  folder.write("in/empty.txt", "");
  folder.write("in/.hidden", "hhhh");
  folder.write("in/.git/config", "gggg");
  std::filesystem::create_symlink("b.txt", folder.path("in/c.txt"));
  std::filesystem::create_symlink("a", folder.path("in/link"));
  ASSERT_EQ(::mkfifo(folder.path("in/fifo").c_str(), 0600), 0);
  const PreparedText run(folder, folder.path("in"));
  EXPECT_EQ(text_of(folder, "train") + text_of(folder, "val"), "zzzzbbbb");
  for (const std::string_view line :
       {"binary (a zero byte): a/binary", "not UTF-8: latin.txt", "empty: empty.txt", "hidden: .git, .hidden",
        "met before by another name: c.txt", "a link to a folder: link", "not a regular file: fifo"}) {
    EXPECT_TRUE(contains(run.log, "skipped, " + std::string(line))) << line << "\n" << run.log;
  }
  const PreparedText bytes(folder, folder.path("in"), "byte");
  EXPECT_TRUE(contains(text_of(folder, "train") + text_of(folder, "val"), "caf\xE9 au lait"));
}

TEST(Prepare, DoesNotReadItsOwnOutput) {
  const Folder folder;
  folder.write("text.txt", "some text");
  const PreparedText first(folder, folder.path());
  const PreparedText second(folder, folder.path());
  EXPECT_EQ(to_json(first.result.description).dump(), to_json(second.result.description).dump());
  EXPECT_TRUE(contains(second.log, "the output folder: out")) << second.log;
}

TEST(Prepare, ReadsStandardInput) {
  const Folder folder;
  std::FILE* stream = std::fopen(folder.write("t.txt", "from a pipe").c_str(), "rb");
  const PreparedText run(folder, "-", "char", 0, stream);
  std::fclose(stream);
  EXPECT_EQ(text_of(folder, "train") + text_of(folder, "val"), "from a pipe");
  EXPECT_EQ(std::filesystem::exists(folder.path("out/standard-input.partial")), false);
}

TEST(Prepare, NamesFileAndByteOfInvalidUtf8) {
  const Folder folder;
  std::string text = long_text();
  const std::size_t at = text.find("x\n", 2'500'000);
  text[at] = '\xFF';
  text[text.find("x\n", 3'000'000)] = '\xFE';  // a later one, which another thread may meet first
  folder.write("in/1.txt", "fine");
  folder.write("in/2.txt", text);
  const std::string message = prepare_error(folder, folder.path("in"));
  EXPECT_TRUE(contains(message, folder.path("in/2.txt") + ", byte " + std::to_string(at) + " (0xff)")) << message;
  EXPECT_FALSE(std::filesystem::exists(folder.path("out")));
  EXPECT_NO_THROW(PreparedText(folder, folder.path("in/2.txt"), "byte"));
}

TEST(Prepare, RefusesACharacterThatTheEndCutsOff) {
  const Folder folder;
  const std::string message = prepare_error(folder, folder.write("t.txt", "abc\xE2\x82"));
  EXPECT_TRUE(contains(message, "byte 3 (0xe2)")) << message;
}

TEST(Prepare, NamesCharactersThatAReadTokenizerDoesNotHave) {
  const Folder folder;
  const std::string tokenizer = "hf:" + folder.write("t.json", char_tokenizer_json(" abc").dump());
  const std::string message = prepare_error(folder, folder.write("text", "ab ca\xE2\x82\xAC\x1B b"), tokenizer);
  EXPECT_TRUE(contains(message, "text has characters that the tokenizer does not have: \xE2\x82\xAC\\x1b")) << message;
  EXPECT_TRUE(contains(prepare_error(folder, folder.write("bad", "ab \xFF"), tokenizer), "bad, byte 3 (0xff): not valid UTF-8"));
  const PreparedText good(folder, folder.write("good", "a b c a b c"), tokenizer);
  EXPECT_TRUE(contains(good.facts, "all the unique characters:  abc\n")) << good.facts;
  const std::string line = "{\"text\": \"abc\"}\n";
  const std::string ends = prepare_error(folder, folder.write("text.jsonl", line + line), tokenizer);
  EXPECT_TRUE(contains(ends, "does not have: \\n")) << ends;
}

TEST(Prepare, NamesAByteOrderMark) {
  const Folder folder;
  const PreparedText marked(folder, folder.write("text", "\xEF\xBB\xBFsome text, \x1B[1mand more\n"));
  EXPECT_TRUE(contains(marked.log, "begins with a byte order mark (U+FEFF), which is a character of the text")) << marked.log;
  EXPECT_TRUE(contains(marked.facts, "\\x1b") && contains(marked.facts, "\\ufeff")) << marked.facts;
  const std::string line = "{\"text\": \"abc\"}\n";
  const PreparedText lines(folder, folder.write("text.jsonl", "\xEF\xBB\xBF" + line + line), "byte");
  EXPECT_EQ(lines.log.find("byte order mark"), std::string::npos) << lines.log;
  EXPECT_EQ(text_of(folder, "train") + text_of(folder, "val"), "abc\nabc\n");
}

TEST(Prepare, RefusesTextsThatTeachNothing) {
  const Folder folder;
  for (const std::string tokenizer : {"char", "byte"}) {
    EXPECT_TRUE(contains(prepare_error(folder, folder.write("t.txt", ""), tokenizer), "is empty"));
    EXPECT_TRUE(contains(prepare_error(folder, folder.write("t.txt", "a"), tokenizer), "one character long"));
  }
  EXPECT_TRUE(contains(prepare_error(folder, folder.write("t.txt", "aaaa")), "repeats one character"));
  folder.write("in/empty.txt", "");
  EXPECT_TRUE(contains(prepare_error(folder, folder.path("in")), "no text files"));
}

TEST(Prepare, RefusesWhatIsNotThere) {
  const Folder folder;
  EXPECT_TRUE(contains(prepare_error(folder, folder.path("none.txt")), "none.txt"));
  EXPECT_FALSE(std::filesystem::exists(folder.path("out")));
  EXPECT_TRUE(contains(prepare_error(folder, folder.write("t.txt", "text"), "words"), "\"words\""));
}

TEST(Prepare, RefusesAFileInPlaceOfTheFolder) {
  const Folder folder;
  folder.write("out", "a file where the folder belongs");
  EXPECT_TRUE(contains(prepare_error(folder, folder.write("t.txt", "some text")), folder.path("out")));
}

TEST(Prepare, RefusesAReadOnlyFolder) {
  if (::geteuid() == 0) GTEST_SKIP() << "root may write everywhere";
  const Folder folder;
  folder.write("t.txt", "some text");
  std::filesystem::create_directory(folder.path("out"));
  std::filesystem::permissions(folder.path("out"), std::filesystem::perms::owner_read | std::filesystem::perms::owner_exec);
  EXPECT_TRUE(contains(prepare_error(folder, folder.path("t.txt")), "out"));
  std::filesystem::permissions(folder.path("out"), std::filesystem::perms::owner_all);
}

// A limit on the size of files stands for a full disk.
TEST(Prepare, AFailureLeavesTheOldFilesAlone) {
  const Folder folder;
  const PreparedText run(folder, folder.write("t.txt", "the old text"));
  const std::string old = folder.read("out/train.bin");
  const std::string input = folder.write("t.txt", long_text());
  struct rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const struct rlimit limit{1'000'000, before.rlim_max};
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &limit), 0);
  EXPECT_THROW(PreparedText(folder, input), std::runtime_error);
  std::FILE* stream = std::fopen(input.c_str(), "rb");
  EXPECT_THROW(PreparedText(folder, "-", "char", 0, stream), std::runtime_error);
  std::fclose(stream);
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  std::signal(SIGXFSZ, handler);
  EXPECT_EQ(folder.read("out/train.bin"), old);
  EXPECT_EQ(folder.listing("out"), "tokens.json train.bin val.bin");
  EXPECT_EQ(text_of(folder, "train") + text_of(folder, "val"), "the old text");
}

}  // namespace
}  // namespace lockstep::data
