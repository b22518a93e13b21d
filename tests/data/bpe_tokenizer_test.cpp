#include "data/bpe/bpe_tokenizer.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "base/json.h"
#include "data/bpe/tokenizer_json.h"
#include "data/bpe/words.h"
#include "data/normal/normal_form.h"
#include "data/support.h"
#include "data/tokenizer_choice.h"
#include "io/file.h"
#include "support/test_data.h"
#include "support/text.h"

namespace lockstep::data {
namespace {

std::vector<std::int32_t> encoded(const Tokenizer& tokenizer, std::string_view text) {
  std::vector<std::int32_t> ids(tokenizer.room(text.size()));
  std::string unknown;
  ids.resize(tokenizer.encode(text, ids, unknown));
  EXPECT_EQ(unknown, "");
  return ids;
}

// Texts and their ids by tiktoken and by Hugging Face's library (tests/golden/make_tokens.py).
const Json& golden() {
  static const Json json = Json::parse(io::read_file("tests/golden/data/tokens.json"));
  return json;
}

void expect_golden(const Tokenizer& tokenizer, const Json& expected, bool same_text) {
  const Json::Array& texts = golden().at("texts").array();
  ASSERT_GT(texts.size(), 100U);
  for (std::size_t i = 0; i < texts.size(); ++i) {
    const std::string& text = texts[i].string();
    std::vector<std::int32_t> ids;
    for (const Json& id : expected.array()[i].array()) ids.push_back(static_cast<std::int32_t>(id.integer()));
    const std::vector<std::int32_t> found = encoded(tokenizer, text);
    EXPECT_EQ(found, ids) << text;
    EXPECT_EQ(encoded(tokenizer, text), ids) << "with remembered words: " << text;
    if (same_text) {
      EXPECT_EQ(tokenizer.decode(found), text);
    }
  }
}

std::string gpt2_folder() { return test_data("gpt2").string(); }

Json small(std::size_t index) { return golden().at("small").array()[index].at("tokenizer"); }

std::string refusal(Json json) {
  return user_error([&] { bpe::model_from_json(json, "t.json"); });
}

// A copy with one member of one of its parts replaced.
Json with(Json json, const std::string& part, const std::string& key, Json value) {
  Json inner = json.at(part);
  inner.set(key, std::move(value));
  json.set(part, std::move(inner));
  return json;
}

TEST(Bpe, Gpt2IdsAreTiktokens) {
  if (!std::filesystem::exists(gpt2_folder())) GTEST_SKIP() << "no " << gpt2_folder() << ": set LOCKSTEP_TEST_DATA";
  const auto tokenizer = load_tokenizer(tokenizer_choice("gpt2:" + gpt2_folder()));
  EXPECT_EQ(tokenizer->vocabulary(), 50257);
  expect_golden(*tokenizer, golden().at("gpt2"), true);
  // The stored one finds end-of-text in a prompt.
  const auto again = make_tokenizer(Json::parse(tokenizer->describe().dump()));
  EXPECT_EQ(encoded(*again, "Hello world<|endoftext|>"), (std::vector<std::int32_t>{15496, 995, 50256}));
  EXPECT_EQ(again->bytes(995), " world");
}

TEST(Bpe, IdsOfTokenizerJsonAreHuggingFaces) {
  for (const Json& entry : golden().at("small").array()) {
    SCOPED_TRACE(entry.at("name").string());
    const Json& json = entry.at("tokenizer");
    const auto tokenizer = bpe::make_bpe_tokenizer(bpe::model_from_json(json, "t.json"), json.dump(), bpe::AddedTokens::found);
    expect_golden(*tokenizer, entry.at("ids"), entry.at("name").string() != "qwen2");  // which normalises
    const auto written = bpe::to_json(bpe::model_from_json(json, "t.json"));
    const auto again = bpe::make_bpe_tokenizer(bpe::model_from_json(written, "w.json"), "", bpe::AddedTokens::found);
    expect_golden(*again, entry.at("ids"), false);
  }
}

TEST(Bpe, EncodesInvalidUtf8AsBytes) {
  const Json json = small(0);
  const auto tokenizer = bpe::make_bpe_tokenizer(bpe::model_from_json(json, "t.json"), "", bpe::AddedTokens::found);
  std::string text = "valid \xFF\xC3 caf\xE9 \xED\xA0\x80 end\xE2\x82";
  for (int byte = 0; byte < 256; ++byte) text += static_cast<char>(byte);
  EXPECT_EQ(tokenizer->decode(encoded(*tokenizer, text)), text);
}

TEST(Bpe, PartsCutAtAWordBoundaryHaveTheIdsOfTheWhole) {
  std::string text;
  for (const Json& part : golden().at("texts").array()) text += part.string();
  for (const std::size_t which : {0U, 1U, 2U}) {
    const auto tokenizer = bpe::make_bpe_tokenizer(bpe::model_from_json(small(which), "t.json"), "", bpe::AddedTokens::found);
    const std::vector<std::int32_t> whole = encoded(*tokenizer, text);
    std::size_t cuts = 0;
    for (std::size_t from = 0; from < text.size(); from += 41, ++cuts) {
      const std::size_t cut = bpe::word_boundary(text, from);
      if (cut == std::string::npos) break;
      std::vector<std::int32_t> parts = encoded(*tokenizer, std::string_view(text).substr(0, cut));
      const std::vector<std::int32_t> rest = encoded(*tokenizer, std::string_view(text).substr(cut));
      parts.insert(parts.end(), rest.begin(), rest.end());
      ASSERT_EQ(parts, whole) << "cut at byte " << cut;
    }
    EXPECT_GT(cuts, 20U);
  }
}

TEST(Bpe, BlanksThatAreNotKnownAreOneTokenWhereTheVocabularySaysSo) {
  Json json = Json::parse(R"({"decoder": {"type": "Fuse"},
                               "model": {"type": "BPE", "unk_token": "<unk>", "fuse_unk": true, "byte_fallback": false,
                                         "vocab": {"<unk>": 0, "a": 1, "\u2581": 2}, "merges": []}})");
  const auto ids = [&](const char* text) {
    const auto tokenizer = bpe::make_bpe_tokenizer(bpe::model_from_json(json, "it"), json.dump(), bpe::AddedTokens::found);
    return encoded(*tokenizer, text);
  };
  using Ids = std::vector<std::int32_t>;
  EXPECT_EQ(ids("a   a"), (Ids{1, 0, 1}));
  EXPECT_EQ(ids("a  xx  "), (Ids{1, 0}));
  json.set("normalizer", Json::parse(R"({"type": "Replace", "pattern": {"String": " "}, "content": "\u2581"})"));
  EXPECT_EQ(ids("xx  ax"), (Ids{0, 2, 2, 1, 0})) << "as these are known";
}

TEST(Bpe, LongWordsMergeLikeShortOnes) {
  const Json json = small(0);
  const auto tokenizer = bpe::make_bpe_tokenizer(bpe::model_from_json(json, "t.json"), "", bpe::AddedTokens::found);
  // Every part of "thethe...", a run of letters, merges to the same tokens wherever it stands.
  std::string word;
  for (int i = 0; i < 10000; ++i) word += "the";
  const std::vector<std::int32_t> ids = encoded(*tokenizer, word);
  EXPECT_EQ(tokenizer->decode(ids), word);
  EXPECT_LE(ids.size(), 10000U);
}

TEST(NormalForm, Normalises) {
  const normal::NormalForm nfc(normal::Form::c);
  std::string memory;
  EXPECT_EQ(nfc("e\xCC\x81", memory), "\xC3\xA9");
  EXPECT_EQ(nfc("a\xCC\xA7\xCC\x81", memory), "\xC3\xA1\xCC\xA7");                 // marks in their order
  EXPECT_EQ(nfc("\xE1\x84\x80\xE1\x85\xA1\xE1\x86\xA8", memory), "\xEA\xB0\x81");  // Hangul
  EXPECT_EQ(nfc("\xE2\x84\xAB", memory), "\xC3\x85");                              // the angstrom sign
  EXPECT_EQ(nfc("\xF0\x9D\x85\xA0", memory).size(), 12U);                          // composed never
  EXPECT_EQ(nfc("x\xFF\xCC\x81y\xCC", memory), "x\xFF\xCC\x81y\xCC");              // no mark over a stray byte
}

TEST(TokenizerJson, RefusesOtherKindsByName) {
  const Json json = small(0);
  EXPECT_TRUE(contains(refusal(with(json, "model", "type", "WordPiece")), "WordPiece"));
  EXPECT_TRUE(contains(refusal(with(json, "model", "end_of_word_suffix", "</w>")), "end_of_word_suffix"));
  EXPECT_TRUE(contains(refusal(with(json, "model", "dropout", 0.1)), "at random"));
  Json other = json;
  other.set("normalizer", Json::Object{{"type", "Nmt"}});
  EXPECT_TRUE(contains(refusal(other), "Nmt"));
  other = json;
  other.set("pre_tokenizer", nullptr);
  EXPECT_TRUE(contains(refusal(other), "decoder is \"ByteLevel\", but its pre-tokenizer is not"));
  EXPECT_TRUE(contains(refusal(Json::Object{{"version", "1.0"}}), "no \"model\""));
  EXPECT_TRUE(contains(refusal(Json::Array{}), "no \"model\""));
  other = small(1);
  Json sequence = other.at("pre_tokenizer");
  Json::Array parts = sequence.at("pretokenizers").array();
  parts[0].set("pattern", Json::Object{{"Regex", "\\G"}});
  sequence.set("pretokenizers", parts);
  other.set("pre_tokenizer", sequence);
  EXPECT_TRUE(contains(refusal(other), "\\G, which is not supported"));
}

TEST(TokenizerJson, RefusesMergesThatContradictTheVocabulary) {
  const Json json = small(0);
  const std::string missing = refusal(with(json, "model", "merges", Json::Array{Json("q zzz")}));
  EXPECT_TRUE(contains(missing, "t.json: merge 0 (\"q zzz\")") && contains(missing, "no token \"zzz\"")) << missing;
  EXPECT_TRUE(contains(refusal(with(json, "model", "merges", Json::Array{Json("q q")})), "no token \"qq\""));
  EXPECT_TRUE(contains(refusal(with(json, "model", "merges", Json::Array{Json("abc")})), "not a pair"));
}

// As in tokenizers 0.23, whose table of merges keeps the last one.
TEST(TokenizerJson, OfAMergeThatStandsTwiceTheSecondPlaceCounts) {
  const auto ids = [](Json::Array merges) {
    Json json = small(0);
    Json::Object vocabulary = json.at("model").at("vocab").object();
    for (const char* token : {"xq", "qz"}) vocabulary.emplace_back(token, std::ssize(vocabulary));
    json.set("added_tokens", Json::Array{});
    json = with(with(json, "model", "vocab", std::move(vocabulary)), "model", "merges", std::move(merges));
    const bpe::Model model = bpe::model_from_json(json, "t.json");
    EXPECT_EQ(bpe::to_json(model).at("model").at("merges").array().size(), 2U);
    return encoded(*bpe::make_bpe_tokenizer(model, "", bpe::AddedTokens::found), "xqz");
  };
  const std::vector<std::int32_t> qz_first = ids({Json("q z"), Json("x q")});
  EXPECT_NE(ids({Json("x q"), Json("q z")}), qz_first);
  EXPECT_EQ(ids({Json("x q"), Json("q z"), Json("x q")}), qz_first);
  EXPECT_EQ(ids({Json("#version: 0.2"), Json("x q"), Json(Json::Array{"q", "z"}), Json("x q")}), qz_first);
}

TEST(TokenizerJson, RefusesABrokenVocabulary) {
  Json json = small(0);
  json.set("added_tokens", Json::Array{});
  const Json::Array none;
  const auto vocabulary = [&](Json::Object entries) {
    return refusal(with(with(json, "model", "merges", none), "model", "vocab", std::move(entries)));
  };
  EXPECT_TRUE(contains(vocabulary({{"a", 0}, {"b", 0}}), "two tokens have id 0"));
  EXPECT_TRUE(contains(vocabulary({{"a", -1}}), "token id -1"));
  EXPECT_TRUE(contains(vocabulary({{"a", "x"}}), "t.json"));
  EXPECT_TRUE(contains(vocabulary({{"<|endoftext|>", 0}, {"a", 1}}), "single byte 0x00"));
  Json added = json;
  added.set("added_tokens", Json::Array{Json(Json::Object{{"id", 5}, {"content", "<x>"}})});
  EXPECT_TRUE(contains(refusal(added), "\"<x>\" has id 5"));
  for (const std::int64_t far : {std::int64_t{-1}, std::int64_t{1} << 23, std::int64_t{1} << 40}) {
    added.set("added_tokens", Json::Array{Json(Json::Object{{"id", far}, {"content", "<x>"}})});
    EXPECT_TRUE(contains(refusal(added), "token id " + std::to_string(far) + " is not from 0 to "));
  }
}

TEST(TokenizerChoice, NamesWhatIsMissing) {
  const Folder folder;
  EXPECT_TRUE(contains(user_error([] { tokenizer_choice("gpt2"); }), "does not say where"));
  EXPECT_TRUE(contains(user_error([] { tokenizer_choice("words:x"); }), "\"words:x\""));
  for (const std::string size : {"bpe", "bpe:", "bpe:256", "bpe:many", "bpe:1000x", "bpe:99999999999999999999"}) {
    EXPECT_TRUE(contains(user_error([&] { tokenizer_choice(size); }), "not a number from 257")) << size;
  }
  EXPECT_TRUE(contains(user_error([&] { load_tokenizer(tokenizer_choice("gpt2:" + folder.path())); }), "encoder.json"));
  folder.write("encoder.json", "[]");
  folder.write("vocab.bpe", "#version: 0.2\na b c\n");
  EXPECT_TRUE(contains(user_error([&] { load_tokenizer(tokenizer_choice("gpt2:" + folder.path())); }), "not an object"));
  folder.write("encoder.json", "{\"a\": 0}");
  EXPECT_TRUE(contains(user_error([&] { load_tokenizer(tokenizer_choice("gpt2:" + folder.path())); }), "line 2"));
  folder.write("vocab.bpe", "\xEF\xBB\xBF#version: 0.2\na b c\n");
  EXPECT_TRUE(contains(user_error([&] { load_tokenizer(tokenizer_choice("gpt2:" + folder.path())); }), "line 2"));
}

}  // namespace
}  // namespace lockstep::data
