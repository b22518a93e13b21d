// Which tokens are taught, by the bytes that are.

#include "data/chat/taught_tokens.h"

#include <gtest/gtest.h>

#include "data/bpe/bpe_tokenizer.h"
#include "data/bpe/tokenizer_json.h"

namespace lockstep::data {
namespace {

// The text with tokens that are taught in brackets; what is taught of it stands between bars.
std::string bracketed(const Tokenizer& tokenizer, std::string marked) {
  std::vector<Taught> parts;
  for (std::size_t at = marked.find('|'), count = 0; at != marked.npos; at = marked.find('|', at), ++count) {
    marked.erase(at, 1);
    if (count % 2 == 0) parts.push_back({at, at});
    parts.back().end = at;
  }
  std::vector<std::int32_t> ids(tokenizer.room(marked.size()));
  std::string unknown, text;
  ids.resize(tokenizer.encode(marked, ids, unknown));
  std::vector<std::uint8_t> mask(ids.size());
  mark_taught(tokenizer, marked, parts, ids, mask);
  for (std::size_t i = 0; i < ids.size(); ++i) {
    text += mask[i] != 0 ? "[" : "(";
    text += tokenizer.bytes(ids[i]);
    text += mask[i] != 0 ? "]" : ")";
  }
  return text;
}

std::unique_ptr<Tokenizer> small_bpe(const char* source) {
  const Json json = Json::parse(source);
  return bpe::make_bpe_tokenizer(bpe::model_from_json(json, "t"), json.dump(), bpe::AddedTokens::found);
}

// Characters with merges of "aa" and "ab", blanks as a bar below, which stands before a text and behind each token, too.
constexpr const char* sentences = R"({"model": {"type": "BPE", "vocab": {"<unk>": 0, "▁": 1, "a": 2, "b": 3, "aa": 4, "ab": 5},
  "merges": ["a a", "a b"], "unk_token": "<unk>"},
  "normalizer": {"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": "▁"},
                 {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}]},
  "pre_tokenizer": null, "decoder": {"type": "Replace", "pattern": {"String": "▁"}, "content": " "},
  "added_tokens": [{"id": 6, "content": "<s>", "special": true, "normalized": false, "lstrip": false, "rstrip": RSTRIP, "single_word": false}]})";

std::unique_ptr<Tokenizer> sentence_pieces(const char* rstrip) {
  std::string source = sentences;
  source.replace(source.find("RSTRIP"), 6, rstrip);
  return small_bpe(source.c_str());
}

TEST(TaughtTokens, AreThoseOfTheParts) {
  const auto bytes = make_byte_tokenizer();
  EXPECT_EQ(bracketed(*bytes, "a|bc|d|e|"), "(a)[b][c](d)[e]");
  EXPECT_EQ(bracketed(*bytes, "|ab|"), "[a][b]");
  const auto pieces = sentence_pieces("false");
  EXPECT_EQ(bracketed(*pieces, "b|ab|b"), "( )(b)[ab](b)");
}

TEST(TaughtTokens, ATokenOverTheEndOfAPartIsTaught) {
  const auto pieces = sentence_pieces("false");
  EXPECT_EQ(bracketed(*pieces, "ba|ab|b"), "( )(b)[aa][b](b)");
  EXPECT_EQ(bracketed(*pieces, "b|ba|ab"), "( )(b)[b][aa](b)");
  EXPECT_EQ(bracketed(*pieces, "ba|a|aa"), "( )(b)[aa](aa)");
  EXPECT_EQ(bracketed(*pieces, "a|a|a|a|"), "( )[aa][aa]");
}

TEST(TaughtTokens, BlanksThatTokenizersPutInAndTakeOutShiftNothing) {
  EXPECT_EQ(bracketed(*sentence_pieces("false"), "a<s>|ab<s>|b"), "( )(a)(<s>)[ ][ab][<s>]( )(b)");
  EXPECT_EQ(bracketed(*sentence_pieces("true"), "a<s> |  b<s>| a"), "( )(a)(<s>)[ ][b][<s>]( )(a)");
}

}  // namespace
}  // namespace lockstep::data
