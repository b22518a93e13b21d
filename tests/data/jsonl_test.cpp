// JSONL to token files and loss masks.

#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "data/corpus.h"
#include "data/prepare/prepare.h"
#include "data/shards.h"
#include "data/support.h"
#include "data/text/documents.h"
#include "data/tokenizer.h"
#include "io/file.h"
#include "support/text.h"

namespace lockstep::data {
namespace {

std::string line_of(const std::string& text) { return Json(Json::Object{{"text", text}}).dump() + "\n"; }
std::string line_of(const std::string& prompt, const std::string& completion) {
  return Json(Json::Object{{"prompt", prompt}, {"completion", completion}}).dump() + "\n";
}

std::string content(std::FILE* file) {
  std::string text(1 << 16, '\0');
  std::rewind(file);
  text.resize(std::fread(text.data(), 1, text.size(), file));
  std::fclose(file);
  return text;
}

struct Prepared {
  explicit Prepared(PrepareOptions options) {
    std::FILE *printed = std::tmpfile(), *lines = std::tmpfile();
    Log out(lines);
    options.facts = printed;
    options.progress = lines;
    try {
      description = prepare(options, out).description;
    } catch (...) {
      std::fclose(printed);
      std::fclose(lines);
      throw;
    }
    facts = content(printed);
    log = content(lines);
  }
  TokenDescription description;
  std::string facts, log;
};

PrepareOptions options_of(const Folder& folder, const std::string& input, const std::string& tokenizer = "char") {
  return {.input = input, .tokenizer = tokenizer, .out = folder.path("out"), .standard_input = nullptr};
}

// A split as text, with what is not taught in capitals.
std::string shown(const Folder& folder, const std::string& split) {
  Log log;
  const Corpus corpus = open_corpus(folder.path("out"), {}, log);
  const TokenFile& file = split == "train" ? corpus.train : corpus.val;
  std::vector<std::int32_t> ids(static_cast<std::size_t>(file.tokens())), taught;
  file.read(0, ids);
  taught = ids;
  file.apply_mask(0, taught);
  std::string text;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    std::string token(corpus.tokenizer->bytes(ids[i]));
    if (taught[i] < 0) std::ranges::transform(token, token.begin(), [](char c) { return static_cast<char>(std::toupper(c)); });
    text += token;
  }
  return text;
}

TEST(Jsonl, ADocumentEndsWithALineFeedOfCharacters) {
  const Folder folder;
  const std::string input = folder.write("t.jsonl", line_of("abcabc") + "\n" + line_of("") + line_of("de") + line_of("f"));
  for (const std::string tokenizer : {"char", "byte"}) {
    const Prepared run(options_of(folder, input, tokenizer));
    EXPECT_TRUE(contains(run.facts, "documents: 3\nlength of dataset in characters: 9\n")) << run.facts;
    EXPECT_TRUE(contains(run.facts, "train has 10 tokens\nval has 2 tokens\n")) << run.facts;
    EXPECT_EQ(shown(folder, "train"), "abcabc\nde\n");
    EXPECT_EQ(shown(folder, "val"), "f\n");
    EXPECT_EQ(run.description.documents, 3);
    EXPECT_FALSE(run.description.find("train.bin")->mask.has_value());
  }
  EXPECT_EQ(folder.listing("out"), "tokens.json train.bin val.bin");
}

TEST(Jsonl, PromptsAreMaskedAndTextsAreNot) {
  const Folder folder;
  const std::string input =
      folder.write("t.jsonl", line_of("how? ", "so.") + line_of("plain text") + line_of("who? ", "me.") + line_of("", "x"));
  const Prepared run(options_of(folder, input));
  EXPECT_EQ(shown(folder, "train"), "HOW? so.\nplain text\nWHO? me.\n");
  EXPECT_EQ(shown(folder, "val"), "x\n");
  EXPECT_TRUE(contains(run.facts, "train has 29 tokens\nof them 19 are taught\nval has 2 tokens\nof them 2 are taught\n"))
      << run.facts;
  EXPECT_EQ(folder.listing("out"), "tokens.json train.bin train.mask.bin val.bin val.mask.bin");
  const TokenDescription read = read_description(folder.path("out")).value();
  EXPECT_EQ(read.find("train.bin")->mask->targets, 19);
  EXPECT_EQ(read.find("train.bin")->text_bytes, 19);
  EXPECT_EQ(folder.read("out/train.mask.bin").size(), 29U);
  EXPECT_TRUE(damaged_files(folder.path("out"), read).empty());
  folder.write("out/val.mask.bin", std::string("\1\0", 2));
  EXPECT_EQ(damaged_files(folder.path("out"), read), std::vector<std::string>{"val.mask.bin"});
  // A later preparation without prompts leaves no mask without a description.
  const Prepared plain(options_of(folder, folder.write("t.jsonl", line_of("ab") + line_of("cd"))));
  EXPECT_EQ(folder.listing("out"), "tokens.json train.bin val.bin");
}

// A BPE ends documents with its own token, which is taught.
TEST(Jsonl, ABpeHasATokenForTheEnd) {
  const Folder folder;
  const std::string input = folder.write("t.jsonl", line_of("ab ab ", "cd cd") + line_of("ab ab") + line_of("zz"));
  const Prepared trained(options_of(folder, input, "bpe:260"));
  EXPECT_EQ(shown(folder, "train"), "AB AB cd cd<|endoftext|>ab ab<|endoftext|>");
  EXPECT_EQ(shown(folder, "val"), "zz<|endoftext|>");
  const Prepared again(options_of(folder, input, "hf:" + folder.path("out/tokenizer.json")));
  EXPECT_EQ(shown(folder, "train"), "AB AB cd cd<|endoftext|>ab ab<|endoftext|>");
  EXPECT_EQ(again.description.find("train.bin")->sha256, trained.description.find("train.bin")->sha256);
}

// A model is told to stop by its own token, whatever the names of others.
TEST(Jsonl, DocumentsEndWithTheTokenThatTheTokenizersConfigNames) {
  const Folder folder;
  const std::string input = folder.write("t.jsonl", line_of("ab ab ", "cd cd") + line_of("ab ab") + line_of("zz"));
  const Prepared trained(options_of(folder, input, "bpe:260"));
  std::string json = folder.read("out/tokenizer.json");
  const auto name_end = [&](const std::string& token) {
    return folder.write("model/tokenizer_config.json", Json(Json::Object{{"eos_token", token}}).dump());
  };
  const auto ends = [&](const char* usual, const char* named) {
    std::string renamed = json;
    for (const std::string old = "<|endoftext|>"; renamed.find(old) != renamed.npos;)
      renamed.replace(renamed.find(old), old.size(), usual);
    folder.write("model/tokenizer.json", renamed);
    name_end(named);
    const Prepared run(options_of(folder, input, "hf:" + folder.path("model")));
    Log log;
    const Corpus corpus = open_corpus(folder.path("out"), {}, log);
    EXPECT_EQ(make_tokenizer(corpus.tokenizer->describe())->end_of_text(), corpus.tokenizer->end_of_text());
    EXPECT_EQ(std::string(corpus.tokenizer->bytes(*corpus.document_end)), shown(folder, "val").substr(2));
    return shown(folder, "val").substr(2);
  };
  EXPECT_EQ(ends("<|im_end|>", "<|im_end|>"), "<|im_end|>");
  EXPECT_EQ(ends("<|im_end|>", "nothing"), "nothing") << "a new token, as transformers has it";
  EXPECT_EQ(ends("<|endoftext |>", "q"), "q");
  EXPECT_EQ(ends("</s>", "q"), "q");
  EXPECT_EQ(shown(folder, "train"), "AB AB cd cdqab abq");
  Json described = read_description(folder.path("out"))->tokenizer;
  EXPECT_TRUE(
      contains(user_error([&] { make_tokenizer(described.set("end_of_text", 260)); }), "\"end_of_text\" 260 is no token"));
}

// Too long with what begins and ends it.
TEST(Jsonl, TextsThatAreTooLongAreLeftOut) {
  const Folder folder;
  PrepareOptions options =
      options_of(folder, folder.write("t.jsonl", line_of("ab", "cd") + line_of("abc", "de") + line_of("f")), "byte");
  options.chats = {.length = 5, .too_long = TooLong::drop};
  const Prepared run(options);
  EXPECT_TRUE(contains(run.facts, "documents left out, as they have more than 5 tokens: 1\ndocuments: 2\n")) << run.facts;
  EXPECT_EQ(shown(folder, "train") + shown(folder, "val"), "ABcd\nf\n");
  options.input = folder.write("p.jsonl", R"({"prompt": "a", "chosen": "bcd", "rejected": "b"})"
                                          "\n"
                                          R"({"prompt": "a", "chosen": "b", "rejected": "bcde"})"
                                          "\n"
                                          R"({"prompt": "f", "chosen": "g", "rejected": "h"})"
                                          "\n");
  const Prepared pairs(options);
  EXPECT_TRUE(contains(pairs.facts, "documents left out, as they have more than 5 tokens: 2\ndocuments: 4\n")) << pairs.facts;
  const auto refused = [&](TooLong too_long, const std::string& tokenizer) {
    PrepareOptions other = options_of(folder, folder.path("t.jsonl"), tokenizer);
    other.chats = {.length = 5, .too_long = too_long};
    return user_error([&] { Prepared{other}; });
  };
  EXPECT_TRUE(contains(refused(TooLong::drop, "bpe:260"), "trained on the text cannot count before"));
  EXPECT_TRUE(contains(refused(TooLong::refuse, "byte"), "--length 5: "));
  EXPECT_TRUE(contains(refused(TooLong::cut, "byte"), "--length 5: "));
  options = options_of(folder, folder.path("t.jsonl"));
  options.chats = {.length = 5, .too_long = TooLong::cut};
  options.pack = true;
  EXPECT_TRUE(contains(user_error([&] { Prepared{options}; }), "--too-long cut: "));
}

TEST(Jsonl, ThreadsAndPiecesChangeNothing) {
  std::string text;
  for (int i = 0; i < 60'000; ++i) {
    const std::string words = std::to_string(i * 7919 % 10007) + " na\xC3\xAFve \xE2\x82\xAC\n";
    text += i % 3 == 0 ? line_of(words, "yes " + words) : line_of(words + words);
  }
  const Folder folder;
  const std::string input = folder.write("t.jsonl", text);
  for (const std::string tokenizer : {"char", "byte", "bpe:300"}) {
    std::optional<std::string> expected;
    for (const std::size_t threads : {1, 2, 5}) {
      PrepareOptions options = options_of(folder, input, tokenizer);
      options.threads = threads;
      const Prepared run(options);
      const std::string json = to_json(run.description).dump();
      if (!expected) expected = json;
      EXPECT_EQ(json, *expected);
      EXPECT_EQ(run.description.documents, 60'000);
      EXPECT_TRUE(damaged_files(folder.path("out"), run.description).empty());
    }
  }
}

TEST(Jsonl, DocumentsStayWholeAndTheLastIsForValidation) {
  const Folder folder;
  const auto split = [&](const std::vector<std::size_t>& lengths) {
    std::string text;
    for (std::size_t i = 0; i < lengths.size(); ++i) text += line_of(std::string(lengths[i], static_cast<char>('a' + i)));
    const Prepared run(options_of(folder, folder.write("t.jsonl", text)));
    std::string train = shown(folder, "train"), val = shown(folder, "val");
    return std::to_string(std::ranges::count(train, '\n')) + "+" + std::to_string(std::ranges::count(val, '\n'));
  };
  EXPECT_EQ(split({10, 10}), "1+1");
  EXPECT_EQ(split({1, 99}), "1+1");
  EXPECT_EQ(split({99, 1}), "1+1");
  EXPECT_EQ(split({90, 5, 5}), "1+2");
  EXPECT_EQ(split({89, 5, 6}), "2+1");
  EXPECT_EQ(split({1, 1, 1, 97}), "3+1");
}

TEST(Jsonl, FoldersAreReadByTheNamesOfTheirFiles) {
  const Folder folder;
  folder.write("in/a.jsonl", line_of("aa"));
  folder.write("in/b/c.jsonl", line_of("cc"));
  const Prepared lines(options_of(folder, folder.path("in")));
  EXPECT_EQ(shown(folder, "train") + shown(folder, "val"), "aa\ncc\n");
  folder.write("in/d.txt", "some text");
  const std::string mixed = user_error([&] { Prepared(options_of(folder, folder.path("in"))); });
  EXPECT_TRUE(contains(mixed, "2 files of JSONL and 1 other text files")) << mixed;
  PrepareOptions options = options_of(folder, folder.path("in"));
  options.format = TextFormat::jsonl;
  const Prepared alone(options);
  EXPECT_EQ(shown(folder, "train") + shown(folder, "val"), "aa\ncc\n");
  EXPECT_TRUE(contains(alone.log, "not .jsonl: d.txt")) << alone.log;
  options.format = TextFormat::text;
  const Prepared bytes(options);
  EXPECT_EQ(shown(folder, "train") + shown(folder, "val"), line_of("aa") + line_of("cc") + "some text");
  std::FILE* stream = std::fopen(folder.write("pipe", line_of("pp") + line_of("qq")).c_str(), "rb");
  options = options_of(folder, "-");
  options.format = TextFormat::jsonl;
  options.standard_input = stream;
  const Prepared piped(options);
  std::fclose(stream);
  EXPECT_EQ(shown(folder, "train") + shown(folder, "val"), "pp\nqq\n");
}

TEST(Jsonl, BadLinesAreToldTogetherWithTheirPlaces) {
  const Folder folder;
  std::string text;
  for (int i = 0; i < 40'000; ++i) text += line_of("a line that is fine, number " + std::to_string(i));
  folder.write("in/1.jsonl", line_of("fine") + "[]\n" + text + "{\"text\": 3}\n");
  folder.write("in/2.jsonl", text + "{\"text\": \"caf\xE9\"}\n" + "{\"text\":\n");
  for (const std::size_t threads : {1, 4}) {
    PrepareOptions options = options_of(folder, folder.path("in"), "byte");
    options.threads = threads;
    const std::string message = user_error([&] { Prepared run(options); });
    EXPECT_TRUE(contains(message, folder.path("in/1.jsonl") + ", line 2: this is an array")) << message;
    EXPECT_TRUE(contains(message, folder.path("in/1.jsonl") + ", line 40003: \"text\" is a number")) << message;
    EXPECT_TRUE(contains(message, folder.path("in/2.jsonl") + ", line 40001: not valid JSON (column")) << message;
    EXPECT_TRUE(contains(message, folder.path("in/2.jsonl") + ", line 40002: not valid JSON (column")) << message;
    EXPECT_FALSE(std::filesystem::exists(folder.path("out")));
  }
  std::string bad;
  for (int i = 0; i < 50; ++i) bad += "bad\n";
  try {
    Prepared(options_of(folder, folder.write("bad.jsonl", bad)));
    ADD_FAILURE() << "no error";
  } catch (const UserError& error) {
    EXPECT_EQ(error.problems().size(), most_bad_lines);
  }
}

TEST(Jsonl, NeedsTwoDocuments) {
  const Folder folder;
  EXPECT_TRUE(contains(user_error([&] { Prepared(options_of(folder, folder.write("t.jsonl", "\n\n"))); }), "has 0 documents"));
  EXPECT_TRUE(contains(user_error([&] { Prepared(options_of(folder, folder.write("t.jsonl", line_of("abc")))); }),
                       "has 1 document that"));
}

TEST(Jsonl, ALineHasABound) {
  const Folder folder;
  std::ofstream file(folder.path("t.jsonl"), std::ios::binary);
  file << line_of("one") << line_of("two") << "{\"text\": \"";
  const std::string block(1 << 20, 'x');
  for (int i = 0; i < 70; ++i) file << block;
  file << "\"}\n";
  file.close();
  const std::string message = user_error([&] { Prepared(options_of(folder, folder.path("t.jsonl"))); });
  EXPECT_TRUE(contains(message, folder.path("t.jsonl") + ", line 3: longer than 64")) << message;
}

TEST(Jsonl, ShardsHaveTheirMasks) {
  const Folder folder;
  std::string text;
  for (int i = 0; i < 100; ++i) text += line_of("ask " + std::to_string(i), "say " + std::to_string(i * i));
  PrepareOptions options = options_of(folder, folder.write("t.jsonl", text), "byte");
  options.shards = 3;
  const Prepared run(options);
  std::string joined;
  for (int shard = 0; shard < 3; ++shard) {
    const TokenFile file = open_shard(folder.path("out"), shard, 3);
    ASSERT_TRUE(file.masked());
    joined += folder.read("out/" + mask_name(shard_name(shard, 3)));
  }
  EXPECT_EQ(joined, folder.read("out/train.mask.bin"));
}

}  // namespace
}  // namespace lockstep::data
