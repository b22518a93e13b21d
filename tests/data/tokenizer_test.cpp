#include "data/tokenizer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <numeric>
#include <string>
#include <vector>

#include "base/text/utf8.h"
#include "data/support.h"

namespace lockstep::data {
namespace {

std::vector<std::int32_t> encoded(const Tokenizer& tokenizer, std::string_view text, std::string* unknown = nullptr) {
  std::vector<std::int32_t> ids(text.size());
  std::string dropped;
  ids.resize(tokenizer.encode(text, ids, dropped));
  if (unknown != nullptr) *unknown = dropped;
  return ids;
}

TEST(Utf8, EveryCodePointSurvives) {
  std::string text;
  for (char32_t c = 0; c <= 0x10FFFF; c += (c < 0x3000 ? 1 : 97)) {
    if (c >= 0xD800 && c <= 0xDFFF) continue;
    text.clear();
    append_utf8(text, c);
    const CodePoint point = code_point_at(text, 0);
    ASSERT_EQ(point.value, c);
    ASSERT_EQ(point.length, text.size());
  }
}

TEST(Utf8, RefusesWhatIsNotStrict) {
  for (const std::string_view bad : {"\x80", "\xC0\x80", "\xC1\xBF", "\xE0\x80\x80", "\xED\xA0\x80", "\xF0\x80\x80\x80",
                                     "\xF4\x90\x80\x80", "\xF5\x80\x80\x80", "\xFF", "\xE2\x82", "\xC3("}) {
    EXPECT_EQ(invalid_utf8_at("ab" + std::string(bad)), 2U);
  }
  EXPECT_EQ(invalid_utf8_at("na\xC3\xAFve \xE2\x82\xAC \xF0\x9F\x8E\xB2"), std::string_view::npos);
}

TEST(CharTokenizer, IdsAreCodePointsInOrder) {
  const auto tokenizer = make_char_tokenizer("\n abc\xC3\xA9\xF0\x9F\x8E\xB2");  // e acute, a die
  EXPECT_EQ(tokenizer->vocabulary(), 7);
  EXPECT_EQ(encoded(*tokenizer, "a\xF0\x9F\x8E\xB2 b\xC3\xA9\nc"), (std::vector<std::int32_t>{2, 6, 1, 3, 5, 0, 4}));
  EXPECT_EQ(tokenizer->bytes(6), "\xF0\x9F\x8E\xB2");
}

TEST(CharTokenizer, LongTextsTakeTheFastAndTheSlowWay) {
  const auto tokenizer = make_char_tokenizer(" abcdefgh\xC3\xA9");
  std::string text;
  for (int i = 0; i < 100; ++i) text += "abc defgh" + std::string(i % 7 == 0 ? "\xC3\xA9" : "");
  const std::vector<std::int32_t> ids = encoded(*tokenizer, text);
  EXPECT_EQ(tokenizer->decode(ids), text);
  EXPECT_EQ(ids.size(), 915U);
}

TEST(CharTokenizer, ListsWhatItDropsOnce) {
  const auto tokenizer = make_char_tokenizer("abcdefgh");
  std::string unknown;
  EXPECT_EQ(tokenizer->decode(encoded(*tokenizer, "abc?defgh abc?\xE2\x82\xAC?", &unknown)), "abcdefghabc");
  EXPECT_EQ(unknown, "? \xE2\x82\xAC");
}

TEST(CharTokenizer, NamesTheOffsetOfInvalidUtf8) {
  const auto tokenizer = make_char_tokenizer("ab");
  const std::string text = user_error([&] { encoded(*tokenizer, "abababababab\xFFgh"); });
  EXPECT_NE(text.find("byte 12"), std::string::npos) << text;
}

TEST(CharTokenizer, RefusesABrokenVocabulary) {
  EXPECT_NE(user_error([] { make_char_tokenizer(""); }).find("empty"), std::string::npos);
  EXPECT_NE(user_error([] { make_char_tokenizer("ba"); }).find("ascending"), std::string::npos);
  EXPECT_NE(user_error([] { make_char_tokenizer("aa"); }).find("ascending"), std::string::npos);
  EXPECT_NE(user_error([] { make_char_tokenizer("a\xFF"); }).find("ascending"), std::string::npos);
}

TEST(ByteTokenizer, EveryByteIsAToken) {
  const auto tokenizer = make_byte_tokenizer();
  std::string text(256, '\0');
  for (std::size_t i = 0; i < 256; ++i) text[i] = static_cast<char>(static_cast<unsigned char>(i));
  const std::vector<std::int32_t> ids = encoded(*tokenizer, text);
  std::vector<std::int32_t> expected(256);
  std::iota(expected.begin(), expected.end(), 0);
  EXPECT_EQ(ids, expected);
  EXPECT_EQ(tokenizer->decode(ids), text);
}

TEST(Tokenizers, AreRebuiltFromTheirDescription) {
  for (const auto& tokenizer : {make_char_tokenizer(std::string("\0\n\"\\a\xC3\xA9", 7)), make_byte_tokenizer()}) {
    const auto again = make_tokenizer(Json::parse(tokenizer->describe().dump()));
    EXPECT_EQ(again->name(), tokenizer->name());
    ASSERT_EQ(again->vocabulary(), tokenizer->vocabulary());
    for (std::int32_t id = 0; id < again->vocabulary(); ++id) EXPECT_EQ(again->bytes(id), tokenizer->bytes(id));
  }
}

TEST(Tokenizers, RefuseWhatTheyDoNotKnow) {
  const auto tokenizer = make_char_tokenizer("ab");
  EXPECT_NE(user_error([&] { tokenizer->bytes(2); }).find("token id 2"), std::string::npos);
  EXPECT_NE(user_error([&] { tokenizer->decode(std::vector<std::int32_t>{-1}); }).find("-1"), std::string::npos);
  Json json;
  json.set("name", "words");
  EXPECT_NE(user_error([&] { make_tokenizer(json); }).find("\"words\""), std::string::npos);
  std::vector<std::int32_t> small(1);
  std::string unknown;
  EXPECT_THROW(tokenizer->encode("ab", small, unknown), BrokenRule);
}

TEST(Prompt, DropsWithOneWarning) {
  std::FILE* out = std::tmpfile();
  Log log(out);
  const auto tokenizer = make_char_tokenizer("aht");
  EXPECT_EQ(encode_prompt(*tokenizer, "that? what?!", 3, log), (std::vector<std::int32_t>{2, 1, 0, 2, 1, 0, 2}));
  EXPECT_EQ(encode_prompt(*tokenizer, "hat", 3, log), (std::vector<std::int32_t>{1, 0, 2}));
  std::string printed(4096, '\0');
  std::rewind(out);
  printed.resize(std::fread(printed.data(), 1, printed.size(), out));
  std::fclose(out);
  EXPECT_EQ(std::count(printed.begin(), printed.end(), '\n'), 1) << printed;
  EXPECT_NE(printed.find("? w!"), std::string::npos) << printed;
}

}  // namespace
}  // namespace lockstep::data
