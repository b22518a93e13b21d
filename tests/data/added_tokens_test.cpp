#include "data/bpe/added_tokens.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/json.h"
#include "data/bpe/bpe_tokenizer.h"
#include "data/bpe/tokenizer_json.h"
#include "data/normal/normal_form.h"
#include "data/plain_tokenizer_json.h"
#include "data/support.h"
#include "data/text/source.h"
#include "io/file.h"
#include "support/text.h"

namespace lockstep::data {
namespace {

// Made by Hugging Face's library (tests/golden/make_added_tokens.py).
const Json& added_golden() {
  static const Json json = Json::parse(io::read_file("tests/golden/data/added_tokens.json"));
  return json;
}

Json tokenizer_json(Json added, bool nfc) {
  Json json = added_golden().at("base");
  json.set("added_tokens", std::move(added));
  if (nfc) json.set("normalizer", Json::Object{{"type", "NFC"}});
  return json;
}

std::unique_ptr<Tokenizer> tokenizer_of(const Json& json) {
  return bpe::make_bpe_tokenizer(bpe::model_from_json(json, "t.json"), json.dump(), bpe::AddedTokens::found);
}

std::vector<std::int32_t> added_ids(const Tokenizer& tokenizer, std::string_view text) {
  std::vector<std::int32_t> ids(tokenizer.room(text.size()));
  std::string unknown;
  ids.resize(tokenizer.encode(text, ids, unknown));
  return ids;
}

Json added(const std::string& content, std::int64_t id, Json::Object flags = {}) {
  Json json(Json::Object{{"id", id}, {"content", content}});
  for (auto& [key, value] : flags) json.set(key, std::move(value));
  return json;
}

std::int64_t base_size() { return std::ssize(added_golden().at("base").at("model").at("vocab").object()); }

std::string added_refusal(const Json& json) {
  return user_error([&] { tokenizer_of(json); });
}

TEST(AddedTokens, IdsAreThoseOfHuggingFacesLibrary) {
  const Json::Array& texts = added_golden().at("texts").array();
  std::size_t compared = 0;
  for (const Json& entry : added_golden().at("cases").array()) {
    const auto tokenizer = tokenizer_of(tokenizer_json(entry.at("added_tokens"), entry.at("nfc").boolean()));
    for (std::size_t i = 0; i < texts.size(); ++i) {
      const Json& expected = entry.at("ids").array()[i];
      if (expected.is_null()) continue;  // the library gave up
      std::vector<std::int32_t> ids;
      for (const Json& id : expected.array()) ids.push_back(static_cast<std::int32_t>(id.integer()));
      EXPECT_EQ(added_ids(*tokenizer, texts[i].string()), ids) << texts[i].dump() << '\n' << entry.at("added_tokens").dump();
      ++compared;
    }
  }
  EXPECT_GT(compared, 900U);
}

TEST(AddedTokens, AreWrittenAsTheyWereRead) {
  for (const Json& entry : added_golden().at("cases").array()) {
    const Json written = bpe::to_json(bpe::model_from_json(tokenizer_json(entry.at("added_tokens"), false), "t.json"));
    EXPECT_EQ(written.at("added_tokens").dump(), entry.at("added_tokens").dump());
  }
}

TEST(AddedTokens, PiecesHaveTheIdsOfTheWhole) {
  const Folder folder;
  const std::int64_t size = base_size();
  const Json yes(true);
  const Json json = tokenizer_json(
      Json::Array{added("New York", size), added("mask", size + 1, {{"rstrip", yes}}),
                  added(" one", size + 2, {{"single_word", yes}}), added("b\xC3\xA9 x", size + 3, {{"normalized", yes}}),
                  added("end", size + 4, {{"lstrip", yes}, {"normalized", yes}})},
      true);
  const auto tokenizer = tokenizer_of(json);
  std::string text;
  for (int i = 0; i < 60; ++i) {
    text += std::string(static_cast<std::size_t>(i % 7), 'a') +
            "New York or\na mask  \n mask the one \xCC\xB8 be\xCC\x81 x  \n end a\n";
  }
  folder.write("text", text);
  const TextSource source = file_source(folder.path() + "/text", "text", {.format = TextFormat::text});
  const std::vector<std::int32_t> whole = added_ids(*tokenizer, text);
  for (std::uint64_t bytes = 64; bytes < 80; ++bytes) {
    const TextPieces pieces(source, Cut::word, bytes, tokenizer.get());
    std::vector<std::int32_t> ids;
    std::string buffer;
    for (std::size_t i = 0; i < pieces.count(); ++i) {
      const std::vector<std::int32_t> part = added_ids(*tokenizer, pieces.read(i, buffer).text);
      ids.insert(ids.end(), part.begin(), part.end());
    }
    EXPECT_EQ(ids, whole) << "in pieces of " << bytes << " bytes";
  }
}

TEST(AddedTokens, LaterDescriptionsCountAndEmptyOnesDoNot) {
  const std::int64_t size = base_size();
  const Json::Array twice{added("", 7), added("<x>", size), added("<x>", size, {{"lstrip", Json(true)}}), added("<y>", size + 1)};
  const auto tokenizer = tokenizer_of(tokenizer_json(twice, false));
  EXPECT_EQ(added_ids(*tokenizer, "  <x><y>"),
            (std::vector<std::int32_t>{static_cast<std::int32_t>(size), static_cast<std::int32_t>(size) + 1}));
}

TEST(AddedTokens, RefusesIdsThatTheLibraryWouldNotGive) {
  const std::int64_t size = base_size();
  const auto one = [](Json token) { return tokenizer_json(Json::Array{std::move(token)}, true); };
  EXPECT_TRUE(contains(added_refusal(one(added("<x>", 5))), "\"<x>\" has id 5, which another token has"));
  const std::string far = added_refusal(one(added("<x>", size + 3)));
  EXPECT_TRUE(contains(far, "has id " + std::to_string(size + 3)) && contains(far, "gives it " + std::to_string(size))) << far;
  EXPECT_TRUE(contains(added_refusal(one(added("!", size))), "gives it 0"));  // a token of the vocabulary
  const Json normal(true);
  const Json::Array same{added("\xC3\xA9!", size, {{"normalized", normal}}),
                         added("e\xCC\x81!", size + 1, {{"normalized", normal}})};
  EXPECT_TRUE(contains(added_refusal(tokenizer_json(same, true)), "are the same text"));
  EXPECT_NO_THROW(tokenizer_of(tokenizer_json(same, false)));
}

// "abc" is not in the vocabulary as a word: found only where it stands alone.
TEST(AddedTokens, AreNoWordsOfTheVocabulary) {
  Json json = tokenizer_json(Json::Array{added("bcbc", base_size(), {{"single_word", Json(true)}})}, false);
  Json model = json.at("model");
  model.set("ignore_merges", true);
  json.set("model", model);
  const auto tokenizer = tokenizer_of(json);
  const std::vector<std::int32_t> found = added_ids(*tokenizer, "bcbc"), apart = added_ids(*tokenizer, "bcbc1");
  EXPECT_EQ(found, (std::vector<std::int32_t>{static_cast<std::int32_t>(base_size())}));
  EXPECT_EQ(apart.size(), 3U);
  EXPECT_EQ(apart[0], apart[1]);
}

TEST(PlainTokenizers, AreTheFilesOfHuggingFacesLibrary) {
  const auto expect = [](const Json& golden, const Tokenizer& tokenizer) {
    EXPECT_EQ(tokenizer.tokenizer_json(), golden.at("file").dump());
    std::vector<std::int32_t> ids;
    for (const Json& id : golden.at("ids").array()) ids.push_back(static_cast<std::int32_t>(id.integer()));
    EXPECT_EQ(added_ids(tokenizer, golden.at("text").string()), ids);
    const auto again = plain_tokenizer(golden.at("file"));
    ASSERT_TRUE(again);
    EXPECT_EQ(again->describe().dump(), tokenizer.describe().dump());
  };
  expect(added_golden().at("char"), *make_char_tokenizer(added_golden().at("char").at("characters").string()));
  expect(added_golden().at("byte"), *make_byte_tokenizer());
}

TEST(PlainTokenizers, AreNothingElse) {
  const auto with = [](Json json, const std::string& part, const std::string& key, Json value) {
    Json inner = json.at(part);
    inner.set(key, std::move(value));
    json.set(part, std::move(inner));
    return json;
  };
  const Json characters = char_tokenizer_json("abc"), bytes = byte_tokenizer_json();
  EXPECT_TRUE(plain_tokenizer(characters) && plain_tokenizer(bytes));
  EXPECT_FALSE(plain_tokenizer(Json::Array{}) || plain_tokenizer(Json(Json::Object{{"model", 1}})));
  for (const Json& file : {characters, bytes}) {  // a token before each text is no character
    Json begins = file;
    EXPECT_FALSE(plain_tokenizer(begins.set("post_processor", Json::Object{{"type", "TemplateProcessing"}})));
  }
  EXPECT_FALSE(plain_tokenizer(tokenizer_json(Json::Array{}, false)));
  for (const Json::Object& vocabulary : {Json::Object{}, {{"b", 0}, {"a", 1}}, {{"a", 1}}, {{"ab", 0}}, {{"a", 0}, {"b", "1"}}}) {
    EXPECT_FALSE(plain_tokenizer(with(characters, "model", "vocab", vocabulary))) << Json(vocabulary).dump();
  }
  EXPECT_FALSE(plain_tokenizer(with(characters, "model", "unk_token", "a")));
  EXPECT_FALSE(plain_tokenizer(with(characters, "pre_tokenizer", "invert", true)));
  EXPECT_FALSE(plain_tokenizer(with(bytes, "model", "merges", Json::Array{"a b"})));
  EXPECT_FALSE(plain_tokenizer(with(bytes, "pre_tokenizer", "add_prefix_space", true)));
  Json more = bytes;
  more.set("added_tokens", Json::Array{added("<x>", 256)});
  EXPECT_FALSE(plain_tokenizer(more));
}

TEST(NormalForm, IsThatOfHuggingFacesLibrary) {
  const normal::NormalForm nfc(normal::Form::c);
  std::string memory;
  ASSERT_GT(added_golden().at("nfc").array().size(), 150U);
  for (const Json& pair : added_golden().at("nfc").array()) {
    EXPECT_EQ(nfc(pair.array()[0].string(), memory), pair.array()[1].string()) << pair.dump();
  }
}

}  // namespace
}  // namespace lockstep::data
