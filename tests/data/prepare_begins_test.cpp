// prepare() of a tokenizer whose post-processor puts a token before each text.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "base/json.h"
#include "base/log.h"
#include "data/corpus.h"
#include "data/prepare/prepare.h"
#include "data/support.h"
#include "support/text.h"

namespace lockstep::data {
namespace {

std::vector<std::int32_t> ids_of(const TokenFile& file) {
  std::vector<std::int32_t> all(static_cast<std::size_t>(file.tokens()));
  file.read(0, all);
  return all;
}

Json tokenizer_without_a_begin() {
  Json json = Json::parse(Folder::contents("tests/golden/data/sentence_tokens.json")).at("kinds").array().front().at("tokenizer");
  return json.set("post_processor", nullptr);
}

// A text begins with <s>, which is 1.
std::string begun_tokenizer(const Folder& folder) {
  Json json = tokenizer_without_a_begin();
  json.set("post_processor", Json::parse(R"({"type": "TemplateProcessing", "pair": [],
      "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
      "special_tokens": {"<s>": {"id": "<s>", "ids": [1], "tokens": ["<s>"]}}})"));
  return "hf:" + folder.write("begun.json", json.dump());
}

TEST(PrepareBegins, TextsAndDocumentsBeginWithWhatThePostProcessorPutsBeforeThem) {
  const Folder folder;
  std::FILE* const nowhere = std::tmpfile();
  const std::string plain = "hf:" + folder.write("plain.json", tokenizer_without_a_begin().dump()),
                    begun = begun_tokenizer(folder);
  const auto prepared = [&](const std::string& input, const std::string& tokenizer) {
    Log log;
    prepare({.input = input, .tokenizer = tokenizer, .out = folder.path("out"), .facts = nowhere, .progress = nowhere}, log);
    const Corpus corpus = open_corpus(folder.path("out"), {}, log);
    return std::pair{ids_of(corpus.train), ids_of(corpus.val)};
  };
  const std::string text = folder.write("text", "a lamp and a lamp and a lamp"), lines = [&] {
    std::string all;
    for (int i = 0; i < 4; ++i) all += "{\"text\": \"a lamp\"}\n";
    return folder.write("lines.jsonl", all);
  }();
  for (const std::string& input : {text, lines}) {
    auto [train, val] = prepared(input, plain);
    const auto [train_begun, val_begun] = prepared(input, begun);
    EXPECT_EQ(std::ranges::count(train, 1) + std::ranges::count(val, 1), 0);
    EXPECT_EQ(train_begun.front(), 1);
    EXPECT_EQ(val_begun.front(), 1);
    EXPECT_EQ(std::ranges::count(train_begun, 1) + std::ranges::count(val_begun, 1), input == text ? 2 : 4);
    std::vector<std::int32_t> rest = train_begun;
    std::erase(rest, 1);
    EXPECT_EQ(rest, train);
  }
  const auto of = [&](const char* first, const char* second) {
    return prepared(folder.write("own.jsonl", std::string(first) + "\n" + second + "\n"), begun);
  };
  const auto once = of(R"({"text": "a lamp"})", R"({"prompt": "a ", "completion": "lamp"})");
  EXPECT_EQ(of(R"({"text": "<s>a lamp</s>"})", R"({"prompt": "<s>a ", "completion": "lamp</s>"})"), once);
  EXPECT_EQ(of(R"({"text": "a lamp</s>"})", R"({"prompt": "a ", "completion": "lamp"})"), once);
  std::fclose(nowhere);
}

// It has the same tokens, whichever of its begin and its end it writes itself.
TEST(PrepareBegins, ADocumentIsTooLongByTheTokensThatItHas) {
  const Folder folder;
  const std::string begun = begun_tokenizer(folder);
  const auto prepared = [&](const std::string& row, std::int64_t length) {
    std::FILE* const nowhere = std::tmpfile();
    Log log;
    const std::string input = folder.write("rows.jsonl", row + "\n" + row + "\n");
    std::string said;
    try {
      prepare({.input = input,
               .tokenizer = begun,
               .out = folder.path("out"),
               .chats = {.length = length, .too_long = TooLong::drop},
               .facts = nowhere,
               .progress = nowhere},
              log);
    } catch (const UserError& error) {
      said = error.what();
    }
    std::fclose(nowhere);
    return said;
  };
  const auto tokens = [&] {
    Log log;
    return open_corpus(folder.path("out"), {}, log).train.tokens();
  };
  for (const auto& [plain, own] :
       {std::pair(R"({"text": "a lamp"})", R"({"text": "<s>a lamp"})"),
        {R"({"text": "a lamp"})", R"({"text": "<s>a lamp</s>"})"},
        {R"({"prompt": "a ", "completion": "lamp"})", R"({"prompt": "<s>a ", "completion": "lamp</s>"})"}}) {
    ASSERT_EQ(prepared(plain, 99), "");
    const std::int64_t length = tokens();
    for (const char* row : {plain, own}) {
      EXPECT_EQ(prepared(row, length), "") << row;
      EXPECT_EQ(tokens(), length) << row;
      EXPECT_TRUE(contains(prepared(row, length - 1), "has 0 documents")) << row;
    }
  }
}

}  // namespace
}  // namespace lockstep::data
