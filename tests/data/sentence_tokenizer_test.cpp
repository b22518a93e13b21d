#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/json.h"
#include "data/bpe/bpe_tokenizer.h"
#include "data/bpe/tokenizer_json.h"
#include "data/support.h"
#include "io/file.h"
#include "support/text.h"

namespace lockstep::data {
namespace {

// Made by Hugging Face's library (tests/golden/make_sentence_tokens.py).
const Json& sentence_golden() {
  static const Json json = Json::parse(io::read_file("tests/golden/data/sentence_tokens.json"));
  return json;
}

const Json& kind(std::string_view name) {
  for (const Json& entry : sentence_golden().at("kinds").array()) {
    if (entry.at("name").string() == name) return entry.at("tokenizer");
  }
  throw std::runtime_error("no such kind");
}

std::unique_ptr<Tokenizer> sentence_tokenizer(const Json& json) {
  return bpe::make_bpe_tokenizer(bpe::model_from_json(json, "t.json"), json.dump(), bpe::AddedTokens::found);
}

std::vector<std::int32_t> sentence_ids(const Tokenizer& tokenizer, std::string_view text, bool goes_on = false) {
  std::vector<std::int32_t> ids(tokenizer.room(text.size()));
  std::string unknown;
  ids.resize(tokenizer.encode(text, ids, unknown, goes_on));
  EXPECT_EQ(unknown, "");
  return ids;
}

std::string sentence_refusal(const Json& json) {
  return user_error([&] { sentence_tokenizer(json); });
}

// A copy with a member replaced.
Json changed(Json json, const std::string& key, Json value) {
  json.set(key, std::move(value));
  return json;
}
Json in_model(const Json& json, const std::string& key, Json value) {
  return changed(json, "model", changed(json.at("model"), key, std::move(value)));
}

Json with_begin(const Json& json, std::int64_t id) {
  return changed(json, "post_processor",
                 Json::parse(R"({"type": "TemplateProcessing", "pair": [],
                                 "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
                                 "special_tokens": {"<s>": {"id": "<s>", "ids": [)" +
                             std::to_string(id) + R"(], "tokens": ["<s>"]}}})"));
}

TEST(SentenceTokenizer, APromptBeginsWithWhatThePostProcessorPutsBeforeIt) {
  const Json plain = changed(kind("mistral"), "post_processor", nullptr);
  const auto without = sentence_tokenizer(plain), tokenizer = sentence_tokenizer(with_begin(plain, 1));
  Log log;
  const std::vector<std::int32_t> ids = encode_prompt(*without, "a lamp", without->vocabulary(), log);
  std::vector<std::int32_t> begun = encode_prompt(*tokenizer, "a lamp", tokenizer->vocabulary(), log);
  EXPECT_TRUE(without->begin_of_text().empty());
  ASSERT_EQ(begun.size(), ids.size() + 1);
  EXPECT_EQ(begun.front(), 1);
  EXPECT_EQ(std::vector(begun.begin() + 1, begun.end()), ids);
  EXPECT_EQ(decode_prompt(*tokenizer, begun), "a lamp");
  EXPECT_EQ(decode_prompt(*tokenizer, ids), "a lamp");
  EXPECT_EQ(encode_prompt(*tokenizer, "", tokenizer->vocabulary(), log), std::vector<std::int32_t>{}) << "nothing is continued";
  EXPECT_EQ(sentence_ids(*tokenizer, "a lamp"), ids) << "a text that is cut has no beginning of its own";
  EXPECT_NE(sentence_refusal(with_begin(plain, 100000)).find("puts 100000 before a text, which is no token"), std::string::npos);
  EXPECT_NE(sentence_refusal(with_begin(plain, -1)).find("puts -1 before a text"), std::string::npos);
}

TEST(SentenceTokenizer, IdsAndTextsAreThoseOfHuggingFacesLibrary) {
  const Json::Array& texts = sentence_golden().at("texts").array();
  for (const Json& entry : sentence_golden().at("kinds").array()) {
    SCOPED_TRACE(entry.at("name").string());
    const auto tokenizer = sentence_tokenizer(entry.at("tokenizer"));
    for (std::size_t i = 0; i < texts.size(); ++i) {
      std::vector<std::int32_t> ids;
      for (const Json& id : entry.at("ids").array()[i].array()) ids.push_back(static_cast<std::int32_t>(id.integer()));
      EXPECT_EQ(sentence_ids(*tokenizer, texts[i].string()), ids) << texts[i].dump();
      EXPECT_EQ(tokenizer->decode(ids), entry.at("texts").array()[i].string()) << texts[i].dump();
    }
  }
}

// Made by Hugging Face's library (tests/golden/make_first_marks.py).
TEST(SentenceTokenizer, AMarkOfTheFirstPieceStandsWhereHuggingFacesLibraryPutsIt) {
  const Json golden = Json::parse(io::read_file("tests/golden/data/first_marks.json"));
  const Json::Array& texts = golden.at("texts").array();
  for (const Json& entry : golden.at("kinds").array()) {
    const auto tokenizer = sentence_tokenizer(entry.at("tokenizer"));
    for (std::size_t i = 0; i < texts.size(); ++i) {
      const Json& ids = entry.at("ids").array()[i];
      if (ids.is_null()) continue;  // the library gave up
      const std::vector<std::int32_t> found = sentence_ids(*tokenizer, texts[i].string());
      EXPECT_EQ(Json(Json::Array(found.begin(), found.end())).dump(), ids.dump()) << texts[i].dump() << '\n'
                                                                                  << entry.at("tokenizer").dump();
    }
  }
}

TEST(SentenceTokenizer, PiecesHaveTheIdsOfTheWhole) {
  std::string text;
  for (const Json& part : sentence_golden().at("texts").array()) text += part.string() + "x y\n";
  for (const Json& entry : sentence_golden().at("kinds").array()) {
    SCOPED_TRACE(entry.at("name").string());
    const auto tokenizer = sentence_tokenizer(entry.at("tokenizer"));
    const std::vector<std::int32_t> whole = sentence_ids(*tokenizer, text);
    std::size_t cuts = 0;
    for (std::size_t cut = tokenizer->boundary(text, 1); cut < text.size(); cut = tokenizer->boundary(text, cut + 1), ++cuts) {
      std::vector<std::int32_t> parts = sentence_ids(*tokenizer, std::string_view(text).substr(0, cut));
      const std::vector<std::int32_t> rest = sentence_ids(*tokenizer, std::string_view(text).substr(cut), true);
      parts.insert(parts.end(), rest.begin(), rest.end());
      ASSERT_EQ(parts, whole) << "cut at byte " << cut;
    }
    EXPECT_EQ(cuts > 40, entry.at("name").string() != "crossing");  // whose merges reach over blanks
  }
}

TEST(SentenceTokenizer, BytesThatAreNoTextFallBackToBytes) {
  const std::string text = "caf\xE9 \xFF\xE2\x82 x";
  for (const char* name : {"gemma", "unigram-bytes"}) {
    const auto tokenizer = sentence_tokenizer(kind(name));
    EXPECT_EQ(tokenizer->decode(sentence_ids(*tokenizer, text)), text) << name;
  }
}

TEST(SentenceTokenizer, NamesWhatTheVocabularyLacks) {
  const Json json = in_model(in_model(kind("mistral"), "unk_token", nullptr), "byte_fallback", false);
  const auto tokenizer = sentence_tokenizer(json);
  std::vector<std::int32_t> ids(tokenizer->room(64));
  for (int again = 0; again < 2; ++again) {
    std::string unknown;
    EXPECT_EQ(tokenizer->encode("a\u4E00 a\u4E00\u4E01", ids, unknown), 2U);
    EXPECT_EQ(unknown, "\u4E00\u4E01");
  }
}

TEST(SentenceTokenizer, ByteFallbackOfBytesIsHarmless) {
  const Json json = in_model(kind("o200k"), "byte_fallback", true);
  EXPECT_EQ(sentence_ids(*sentence_tokenizer(json), "na\xC3\xAFve"),
            sentence_ids(*sentence_tokenizer(kind("o200k")), "na\xC3\xAFve"));
}

TEST(SentenceTokenizer, IsReadAgainFromItsDescription) {
  for (const char* name : {"gemma", "unigram-bytes"}) {
    const auto tokenizer = sentence_tokenizer(kind(name));
    const auto again = make_tokenizer(Json::parse(tokenizer->describe().dump()));
    EXPECT_EQ(again->name(), tokenizer->name());
    EXPECT_EQ(sentence_ids(*again, "it is"), sentence_ids(*tokenizer, "it is"));
  }
}

TEST(SentenceTokenizer, RefusesByName) {
  const Json& json = kind("mistral");
  const auto of = [&](const char* part, Json::Object value) { return sentence_refusal(changed(json, part, std::move(value))); };
  EXPECT_TRUE(contains(of("normalizer", {{"type", "Nmt"}}), "normalizer \"Nmt\""));
  EXPECT_TRUE(contains(of("normalizer", {{"type", "NFC"}, {"mode", 1}}), "NFC has the key \"mode\""));
  EXPECT_TRUE(contains(of("pre_tokenizer", {{"type", "UnicodeScripts"}}), "\"UnicodeScripts\""));
  const Json::Object spaces{{"type", "Metaspace"}, {"replacement", "_"}, {"prepend_scheme", "last"}};
  EXPECT_TRUE(contains(of("pre_tokenizer", spaces), "\"last\""));
  const auto split = [&](Json pattern, const char* behavior) {
    return of("pre_tokenizer", {{"type", "Split"}, {"pattern", std::move(pattern)}, {"behavior", behavior}, {"invert", false}});
  };
  EXPECT_TRUE(contains(split(Json::Object{{"Regex", "(?<x>a)b"}}, "Isolated"), "group that begins with (?<x"));
  EXPECT_TRUE(contains(split(Json::Object{{"Regex", "a"}}, "Gone"), "unknown behavior \"Gone\""));
  EXPECT_TRUE(contains(split(Json::Object{{"String", ""}}, "Isolated"), "an empty text"));
  EXPECT_TRUE(contains(of("decoder", {{"type", "WordPiece"}}), "decoder \"WordPiece\""));
  EXPECT_TRUE(contains(sentence_refusal(changed(json, "decoder", nullptr)), "no decoder"));
  EXPECT_TRUE(contains(sentence_refusal(changed(kind("o200k"), "decoder", Json::Object{{"type", "CTC"}})), "decoder \"CTC\""));
  EXPECT_TRUE(contains(of("post_processor", {{"type", "Whatever"}}), "post-processor \"Whatever\""));
  const auto writes = [&](const char* single) {
    return of("post_processor",
              {{"type", "TemplateProcessing"}, {"single", Json::parse(single)}, {"special_tokens", Json::Object{}}});
  };
  EXPECT_TRUE(contains(writes("[]"), "writes a text not at all"));
  EXPECT_TRUE(contains(writes(R"([{"Sequence": {"id": "A"}}, {"Sequence": {"id": "A"}}])"), "writes a text more than once"));
  EXPECT_TRUE(contains(writes(R"([{"Sequence": {"id": "B"}}])"), "has the text \"B\""));
  EXPECT_TRUE(contains(sentence_refusal(in_model(json, "unk_token", "<none>")), "unk_token contradicts"));
  EXPECT_TRUE(contains(sentence_refusal(in_model(json, "novel", true)), "the key \"novel\""));
  const Json& unigram = kind("unigram-bytes");
  EXPECT_TRUE(contains(sentence_refusal(in_model(unigram, "unk_id", 100000)), "unk_id"));
  EXPECT_TRUE(contains(sentence_refusal(in_model(unigram, "vocab", Json::Array{})), "vocabulary is empty"));
  EXPECT_TRUE(
      contains(sentence_refusal(in_model(unigram, "vocab", Json::Array{Json(Json::Array{"a"})})), "not a token and its score"));
}

}  // namespace
}  // namespace lockstep::data
