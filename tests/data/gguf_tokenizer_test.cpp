// Tokenizers as GGUF files have them.

#include "data/gguf_tokenizer.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>

#include "data/bpe/bpe_tokenizer.h"
#include "data/bpe/tokenizer_json.h"
#include "data/support.h"
#include "io/file.h"

namespace lockstep::data {
namespace {

constexpr std::int64_t vocabulary = 2000;

std::vector<std::int32_t> ids_in(const Tokenizer& tokenizer, std::string_view text) {
  std::vector<std::int32_t> ids(tokenizer.room(text.size()));
  std::string unknown;
  ids.resize(tokenizer.encode(text, ids, unknown));
  return ids;
}

std::unique_ptr<Tokenizer> tokenizer_from(const Json& json) {
  return bpe::make_bpe_tokenizer(bpe::model_from_json(json, "it"), json.dump(), bpe::AddedTokens::found);
}

std::unique_ptr<Tokenizer> small() {
  const Json golden = Json::parse(io::read_file("tests/golden/data/tokens.json"));
  return tokenizer_from(golden.at("small").array()[0].at("tokenizer"));
}

std::string refused(const Json& pairs) {
  return user_error([&] { tokenizer_of_gguf(pairs, "some.gguf"); });
}
#define EXPECT_SAYS(part, text) EXPECT_PRED_FORMAT2(testing::IsSubstring, part, text)

TEST(GgufTokenizer, ComesBackWithItsIds) {
  const Json golden = Json::parse(io::read_file("tests/golden/data/tokens.json"));
  std::size_t tried = 0;
  for (const Json& one : golden.at("small").array()) {
    const auto before = tokenizer_from(one.at("tokenizer"));
    Json pairs;
    try {
      pairs = gguf_of_tokenizer(*before, vocabulary);
    } catch (const UserError& error) {
      EXPECT_SAYS("llama.cpp has no tokenizer that splits as this one", error.what());
      continue;
    }
    const auto after = tokenizer_of_gguf(pairs, "some.gguf");
    for (const Json& text : golden.at("texts").array())
      EXPECT_EQ(ids_in(*after, text.string()), ids_in(*before, text.string())) << text.string();
    ++tried;
  }
  EXPECT_GE(tried, 3U);
}

TEST(GgufTokenizer, HasATextForEveryId) {
  const Json pairs = gguf_of_tokenizer(*small(), vocabulary);
  const Json::Array &tokens = pairs.at("tokenizer.ggml.tokens").array(), &types = pairs.at("tokenizer.ggml.token_type").array();
  ASSERT_EQ(tokens.size(), static_cast<std::size_t>(vocabulary));
  ASSERT_EQ(types.size(), tokens.size());
  EXPECT_EQ(tokens.back().string(), "[PAD1999]");
  EXPECT_EQ(types.back().integer(), 5);
  EXPECT_THROW(gguf_of_tokenizer(*small(), 10), UserError);
}

/// SentencePiece's BPE: "ab", "_a" and "_ab", of which the last comes of two pairs ('_': U+2581).
Json sentencepiece(const char* merges = R"(["a b", "\u2581 a", "\u2581 ab", "\u2581a b"])") {
  Json::Object pieces{{"<unk>", 0}, {"<s>", 1}, {"</s>", 2}};
  for (std::int64_t byte = 0; byte < 256; ++byte) pieces.emplace_back(fmt::format("<0x{:02X}>", byte), 3 + byte);
  for (const char* token : {"\u2581", "a", "b", "ab", "\u2581a", "\u2581ab"}) pieces.emplace_back(token, std::ssize(pieces));
  Json json = Json::parse(R"({
    "added_tokens": [{"id": 0, "content": "<unk>", "special": true}, {"id": 1, "content": "<s>", "special": true},
                     {"id": 2, "content": "</s>", "special": true}],
    "normalizer": {"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": "\u2581"},
                   {"type": "Replace", "pattern": {"String": " "}, "content": "\u2581"}]},
    "decoder": {"type": "Sequence", "decoders": [{"type": "Replace", "pattern": {"String": "\u2581"}, "content": " "},
                {"type": "ByteFallback"}, {"type": "Fuse"}, {"type": "Strip", "content": " ", "start": 1, "stop": 0}]}})");
  json.set("model", Json::Object{{"type", "BPE"},
                                 {"unk_token", "<unk>"},
                                 {"byte_fallback", true},
                                 {"vocab", std::move(pieces)},
                                 {"merges", Json::parse(merges)}});
  return json;
}

TEST(GgufTokenizer, OfSentencePieceHasScoresForMerges) {
  const auto before = tokenizer_from(sentencepiece());
  Json pairs = gguf_of_tokenizer(*before, 270);
  EXPECT_EQ(pairs.at("tokenizer.ggml.model").string(), "llama");
  EXPECT_TRUE(pairs.at("tokenizer.ggml.add_space_prefix").boolean());
  const Json::Array &scores = pairs.at("tokenizer.ggml.scores").array(), &types = pairs.at("tokenizer.ggml.token_type").array();
  ASSERT_EQ(scores.size(), 270U);
  EXPECT_EQ(scores[262].number(), 0) << "ab";
  EXPECT_EQ(scores[263].number(), -1) << "_a";
  EXPECT_EQ(scores[264].number(), -2) << "_ab, by the first of its pairs";
  EXPECT_EQ(types[0].integer(), 2);
  EXPECT_EQ(types[1].integer(), 3);
  EXPECT_EQ(types[3].integer(), 6);
  EXPECT_EQ(types[264].integer(), 1);
  EXPECT_EQ(types[269].integer(), 5);
  pairs.set("tokenizer.ggml.add_bos_token", true);
  const auto after = tokenizer_of_gguf(pairs, "some.gguf");
  for (const char* text : {"", "ab", "ab ab  a b", "\u2581ab\xC3\xBC\n", "<s>ab</s>"})
    EXPECT_EQ(ids_in(*after, text), ids_in(*before, text)) << text;
  ASSERT_EQ(after->begin_of_text().size(), 1U);
  EXPECT_EQ(after->begin_of_text().front(), 1) << "llama.cpp's, where no key says which";
}

TEST(GgufTokenizer, OfSentencePieceIsRefusedWhereScoresAreNotItsMerges) {
  const auto refusal = [](const Json& json) { return user_error([&] { gguf_of_tokenizer(*tokenizer_from(json), 270); }); };
  EXPECT_NO_THROW(gguf_of_tokenizer(*tokenizer_from(sentencepiece()), 270));
  const char* const none = "llama.cpp has no tokenizer that splits as this one does";
  EXPECT_SAYS(none, refusal(sentencepiece(R"(["a b", "\u2581 a", "\u2581 ab"])"))) << "llama.cpp would merge _a and b, too";
  EXPECT_SAYS(none, refusal(sentencepiece(R"(["a b", "\u2581 ab", "\u2581 a", "\u2581a b"])"))) << "another merge is between";
  Json lower = sentencepiece();
  lower.set("normalizer", Json::Object{{"type", "Lowercase"}});
  EXPECT_SAYS(none, refusal(lower));
  Json words = sentencepiece();
  words.set("normalizer", nullptr).set("pre_tokenizer", Json::Object{{"type", "Metaspace"}, {"replacement", "\u2581"}});
  EXPECT_NO_THROW(gguf_of_tokenizer(*tokenizer_from(words), 270)) << "no token reaches over a word's end";
}

TEST(GgufTokenizer, OfSentencePieceNamesWhatIsMissing) {
  Json pairs = gguf_of_tokenizer(*tokenizer_from(sentencepiece()), 270);
  EXPECT_SAYS("ends each text with a token", refused(Json(pairs).set("tokenizer.ggml.add_eos_token", true)));
  EXPECT_SAYS("\"tokenizer.ggml.scores\" is missing", refused(Json(pairs).set("tokenizer.ggml.scores", nullptr)));
  EXPECT_SAYS("270 tokens and 1 scores", refused(Json(pairs).set("tokenizer.ggml.scores", Json::Array{1.0})));
}

// llama.cpp merges the leftmost of tokens with one score, and merges of a tokenizer.json have an order.
TEST(GgufTokenizer, OfSentencePieceWithEqualScoresIsRefused) {
  Json pairs = gguf_of_tokenizer(*tokenizer_from(sentencepiece()), 270);
  EXPECT_NO_THROW(tokenizer_of_gguf(pairs, "some.gguf")) << "of tokens without merges nothing depends on the score";
  Json::Array scores = pairs.at("tokenizer.ggml.scores").array();
  Json::Array odd = scores;
  odd[263] = std::nan("");
  EXPECT_SAYS("has the score nan", refused(Json(pairs).set("tokenizer.ggml.scores", std::move(odd))));
  scores[263] = scores[262];
  EXPECT_SAYS("some.gguf: its tokens \"ab\" and \"\u2581a\" have one score, which orders no merges",
              refused(pairs.set("tokenizer.ggml.scores", std::move(scores))));
}

std::string lost(const Json& json) {
  std::string all;
  for (const std::string& one : lost_in_gguf(*tokenizer_from(json))) all += one + "\n";
  return all;
}

TEST(GgufTokenizer, SaysWhatLlamaCppCannotBeTold) {
  Json json = sentencepiece();
  EXPECT_EQ(lost(json), "");
  EXPECT_TRUE(lost_in_gguf(*make_byte_tokenizer()).empty());
  Json::Array added = json.at("added_tokens").array();
  added[1].set("rstrip", true);
  added[2].set("single_word", true);
  EXPECT_SAYS("no lstrip, rstrip or single_word of added tokens: texts with \"<s>\" and 1 more differ",
              lost(Json(json).set("added_tokens", std::move(added))));
  const auto piece = [](const char* kind, const char* id) {
    return Json(Json::Object{{kind, Json::Object{{"id", id}, {"type_id", 0}}}});
  };
  const auto with = [&](Json::Array single) {
    const Json token(Json::Object{{"id", "<s>"}, {"ids", Json::Array{1}}, {"tokens", Json::Array{"<s>"}}});
    return Json(json).set("post_processor", Json::Object{{"type", "TemplateProcessing"},
                                                         {"single", std::move(single)},
                                                         {"pair", Json::Array{}},
                                                         {"special_tokens", Json::Object{{"<s>", token}}}});
  };
  const Json begin = piece("SpecialToken", "<s>"), text = piece("Sequence", "A");
  EXPECT_EQ(lost(with({begin, text})), "");
  EXPECT_EQ(lost(with({text})), "");
  EXPECT_SAYS("the tokenizer ends texts with a token", lost(with({text, begin})));
  EXPECT_SAYS("begins texts with one token, and the tokenizer with several", lost(with({begin, begin, text})));
  Json bytes = Json::parse(small()->tokenizer_json());
  EXPECT_EQ(lost(bytes), "");
  EXPECT_SAYS("Unicode's form C", lost(bytes.set("normalizer", Json::Object{{"type", "NFC"}})));
}

// A Split that leaves something out or joins it, and one whose words are split again.
TEST(GgufTokenizer, ThatSplitsInAnotherWayIsRefused) {
  const Json golden = Json::parse(io::read_file("tests/golden/data/tokens.json"));
  const Json llama3 = golden.at("small").array()[1].at("tokenizer");
  const auto written = [&](const auto& change) {
    Json::Array steps = llama3.at("pre_tokenizer").at("pretokenizers").array();
    change(steps);
    const Json json = Json(llama3).set("pre_tokenizer", Json::Object{{"type", "Sequence"}, {"pretokenizers", std::move(steps)}});
    return user_error([&] { gguf_of_tokenizer(*tokenizer_from(json), vocabulary); });
  };
  const char* const none = "llama.cpp has no tokenizer that splits as this one does";
  EXPECT_NO_THROW(gguf_of_tokenizer(*tokenizer_from(llama3), vocabulary));
  EXPECT_SAYS(none, written([](Json::Array& steps) { steps[0].set("behavior", "MergedWithNext"); }));
  EXPECT_SAYS(none, written([](Json::Array& steps) { steps[0].set("behavior", "Removed"); }));
  EXPECT_SAYS(none, written([](Json::Array& steps) { steps[1].set("use_regex", true); }));
  EXPECT_SAYS(none, written([](Json::Array& steps) {
                Json other = steps[0];
                steps.insert(steps.begin(), other.set("pattern", Json::Object{{"Regex", "x"}}));
              }));
}

// Characters of several bytes are merged of them, one after the other.
TEST(GgufTokenizer, OfCharactersHasMergesThatMakeThem) {
  const Json pairs = gguf_of_tokenizer(*make_char_tokenizer("ab\xC3\xBC\xE2\x82\xAC"), 5);
  EXPECT_EQ(pairs.at("tokenizer.ggml.tokens").dump(),
            "[\"a\",\"b\",\"\xC3\x83\xC2\xBC\",\"\xC3\xA2\xC4\xA4\xC2\xAC\",\"[PAD4]\"]");
  EXPECT_EQ(pairs.at("tokenizer.ggml.merges").dump(),
            "[\"\xC3\x83 \xC2\xBC\",\"\xC3\xA2 \xC4\xA4\",\"\xC3\xA2\xC4\xA4 \xC2\xAC\"]");
  EXPECT_EQ(tokenizer_of_gguf(pairs, "some.gguf")->describe().dump(),
            make_char_tokenizer("ab\xC3\xBC\xE2\x82\xAC")->describe().dump());
  const auto bytes = gguf_of_tokenizer(*make_byte_tokenizer(), 256);
  EXPECT_EQ(ids_in(*tokenizer_of_gguf(bytes, "some.gguf"), "h\xC3\xBC"), (std::vector<std::int32_t>{104, 195, 188}));
}

TEST(GgufTokenizer, BeginsTextsWhereTheFileSaysSo) {
  Json pairs = gguf_of_tokenizer(*small(), vocabulary);
  const auto post = [&] { return Json::parse(tokenizer_of_gguf(pairs, "some.gguf")->tokenizer_json()).at("post_processor"); };
  pairs.set("tokenizer.ggml.bos_token_id", 7);
  EXPECT_TRUE(post().is_null());
  pairs.set("tokenizer.ggml.add_bos_token", true);
  EXPECT_EQ(post().at("special_tokens").object().front().second.at("ids").dump(), "[7]");
  pairs.set("tokenizer.ggml.bos_token_id", vocabulary);
  EXPECT_EQ(post().at("special_tokens").object().front().second.at("ids").dump(), "[11]") << "llama.cpp's, where none is named";
}

TEST(GgufTokenizer, OfAnotherKindIsRefused) {
  const Json good = gguf_of_tokenizer(*small(), vocabulary);
  const auto with = [&](const char* key, Json value) {
    Json pairs = good;
    pairs.set(std::string("tokenizer.ggml.") + key, std::move(value));
    return refused(pairs);
  };
  EXPECT_SAYS("its tokenizer, \"\" of kind \"\", is not supported", refused(Json::Object{}));
  EXPECT_SAYS("of kind \"bert\"", with("model", "bert"));
  EXPECT_SAYS("ends each text with a token", with("add_eos_token", true));
  EXPECT_SAYS("\"deepseek-llm\"", with("pre", "deepseek-llm"));
  EXPECT_SAYS("\"tokenizer.ggml.merges\" is missing or no list", with("merges", "a b"));
  EXPECT_SAYS("\"tokenizer.ggml.tokens\" has 2000 and \"tokenizer.ggml.token_type\" 1 elements",
              with("token_type", Json::Array{1}));
  EXPECT_SAYS("the merge ab is not a pair of tokens", with("merges", Json::Array{"ab"}));
  EXPECT_SAYS("the merge 3 is not a pair of tokens", with("merges", Json::Array{3}));
  EXPECT_SAYS("which has no token", with("merges", Json::Array{"q zzzzz"}));
}

}  // namespace
}  // namespace lockstep::data
