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

namespace lockstep::data {
namespace {

std::vector<std::int32_t> ids_of(const TokenFile& file) {
  std::vector<std::int32_t> all(static_cast<std::size_t>(file.tokens()));
  file.read(0, all);
  return all;
}

TEST(PrepareBegins, TextsAndDocumentsBeginWithWhatThePostProcessorPutsBeforeThem) {
  const Folder folder;
  std::FILE* const nowhere = std::tmpfile();
  Json json = Json::parse(Folder::contents("tests/golden/data/sentence_tokens.json")).at("kinds").array().front().at("tokenizer");
  const std::string plain = "hf:" + folder.write("plain.json", json.set("post_processor", nullptr).dump());
  json.set("post_processor", Json::parse(R"({"type": "TemplateProcessing", "pair": [],
      "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
      "special_tokens": {"<s>": {"id": "<s>", "ids": [1], "tokens": ["<s>"]}}})"));
  const std::string begun = "hf:" + folder.write("begun.json", json.dump());
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

}  // namespace
}  // namespace lockstep::data
