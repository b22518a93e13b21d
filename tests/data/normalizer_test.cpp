#include "data/bpe/normalizer.h"

#include <gtest/gtest.h>

#include <string>

#include "data/support.h"
#include "support/text.h"

namespace lockstep::data::bpe {
namespace {

using Kind = NormalRule::Kind;
using normal::Charsmap, normal::Form, normal::Graphemes;

std::string normalised(std::vector<NormalRule> rules, std::string_view text) {
  return Normalizer(std::move(rules), [](std::string_view content) { return content.size(); })(text);
}
std::string in_form(Form form, std::string_view text) { return normalised({{.kind = Kind::form, .form = form}}, text); }

// Unicode Standard Annex 15, figures 3 to 6.
TEST(Normalizer, HasTheFourForms) {
  struct Case {
    const char *text, *d, *c, *kd, *kc;
  };
  for (const auto& [text, d, c, kd, kc] :
       {Case{"\uFB01", "\uFB01", "\uFB01", "fi", "fi"}, Case{"2\u2075", "2\u2075", "2\u2075", "25", "25"},
        Case{"\u1E9B\u0323", "\u017F\u0323\u0307", "\u1E9B\u0323", "s\u0323\u0307", "\u1E69"},
        Case{"\u1E69", "s\u0323\u0307", "\u1E69", "s\u0323\u0307", "\u1E69"},
        Case{"\uAC01", "\u1100\u1161\u11A8", "\uAC01", "\u1100\u1161\u11A8", "\uAC01"},
        Case{"A\u00C5\xFF\u212B",
             "AA\u030A\xFF"
             "A\u030A",
             "A\u00C5\xFF\u00C5",
             "AA\u030A\xFF"
             "A\u030A",
             "A\u00C5\xFF\u00C5"}}) {
    EXPECT_EQ(in_form(Form::d, text), d);
    EXPECT_EQ(in_form(Form::c, text), c);
    EXPECT_EQ(in_form(Form::kd, text), kd);
    EXPECT_EQ(in_form(Form::kc, text), kc);
  }
  EXPECT_EQ(in_form(Form::kc, "plain text"), "plain text");
}

TEST(Normalizer, WritesSmallLettersAndLeavesAccentsOut) {
  EXPECT_EQ(normalised({{.kind = Kind::lower_case}}, "ABC \u00C4\u0130\u03A3\u1E9E z\xFF"),
            "abc \u00E4i\u0307\u03C3\u00DF z\xFF");
  EXPECT_EQ(normalised({{.kind = Kind::accents}}, "a\u0301\u00E9\u0300\u0301."), "a\u00E9.");
  EXPECT_EQ(
      normalised({{.kind = Kind::form, .form = Form::d}, {.kind = Kind::accents}, {.kind = Kind::lower_case}}, "\u00C9T\u00C9"),
      "ete");
}

std::string base64(std::string bytes) {
  constexpr std::string_view digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  const std::size_t filled = (3 - bytes.size() % 3) % 3;
  bytes.append(filled, '\0');
  std::string text;
  for (std::size_t at = 0; at < bytes.size(); at += 3) {
    std::uint32_t bits = 0;
    for (std::size_t i = 0; i < 3; ++i) bits = bits << 8 | static_cast<unsigned char>(bytes[at + i]);
    for (int shift = 18; shift >= 0; shift -= 6) text += digits[bits >> shift & 63U];
  }
  return text.substr(0, text.size() - filled) + std::string(filled, '=');
}

/// A map with one text of at most three bytes in a double array.
std::string one_text_map(const std::string& text, std::string by) {
  std::vector<std::uint32_t> units(512);
  std::size_t node = 1;
  units[0] = 1U << 10;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto label = static_cast<unsigned char>(text[i]);
    const bool last = i + 1 == text.size();
    const std::size_t at = node ^ label, next = last ? at ^ 1U : 256 * (1 - node / 256) + 7;
    units[at] = static_cast<std::uint32_t>((at ^ next) << 10) | (last ? 0x100U : 0U) | label;
    node = next;
  }
  units[node] = 0x80000000U;
  std::string bytes;
  const auto put = [&](std::uint32_t value) {
    for (int shift = 0; shift < 32; shift += 8) bytes += static_cast<char>(value >> shift & 0xFFU);
  };
  put(static_cast<std::uint32_t>(4 * units.size()));
  for (const std::uint32_t unit : units) put(unit);
  by += '\0';
  return base64(bytes + by);
}

TEST(Charsmap, ReplacesClustersAndCharacters) {
  std::string memory;
  const Charsmap accent(one_text_map("a\u0301", "\u00E1"));
  EXPECT_EQ(accent("ba\u0301 a a\u0301\u0302\u0303\u0304x", memory), "b\u00E1 a a\u0301\u0302\u0303\u0304x");
  const Charsmap letter(one_text_map("a", "bcd"));
  EXPECT_EQ(letter("a-a\u0301\xFF"
                   "a",
                   memory),
            "bcd-bcd\xFF"
            "bcd")
      << "of a short cluster all goes with its first character";
  EXPECT_EQ(letter.most_growth(), 3U);
  EXPECT_EQ(letter("nothing", memory), "nothing");
}

TEST(Charsmap, RefusesWhatIsNone) {
  const auto refused = [](const std::string& text) { return user_error([&] { Charsmap map(text); }); };
  EXPECT_TRUE(contains(refused("?"), "base 64"));
  EXPECT_TRUE(contains(refused(""), "cut off"));
  EXPECT_TRUE(contains(refused("////f0=="), "cut off"));
  std::string endless;
  for (const char byte : {'\x04', '\0', '\0', '\0', 'a', '\0', '\0', '\0'}) endless += byte;
  EXPECT_NO_THROW(Charsmap(base64(endless))) << "a trie without texts";
}

TEST(Graphemes, EndWhereUsersSeeThem) {
  const Graphemes graphemes;
  const auto cut = [&](std::string_view text) {
    std::string all;
    for (std::size_t at = 0, end = 0; at < text.size(); at = end) {
      end = graphemes.end(text, at);
      all += std::string(text.substr(at, end - at)) + "|";
    }
    return all;
  };
  EXPECT_EQ(cut("ab\r\n\n"), "a|b|\r\n|\n|");
  EXPECT_EQ(cut("e\u0301\u0300x\u0301"), "e\u0301\u0300|x\u0301|");
  EXPECT_EQ(cut("\u1100\u1161\u11A8\uAC00\u11A8\uAC01"), "\u1100\u1161\u11A8|\uAC00\u11A8|\uAC01|");
  EXPECT_EQ(cut("\U0001F469\u200D\U0001F467a\u200D\U0001F467"), "\U0001F469\u200D\U0001F467|a\u200D|\U0001F467|");
  EXPECT_EQ(cut("\U0001F1E9\U0001F1EA\U0001F1EB\U0001F1F7\U0001F1EB"), "\U0001F1E9\U0001F1EA|\U0001F1EB\U0001F1F7|\U0001F1EB|");
  EXPECT_EQ(cut("\u0600a\u0903\u200B\u0301\xFF\u0301"), "\u0600a\u0903|\u200B|\u0301|\xFF|\u0301|");
}

}  // namespace
}  // namespace lockstep::data::bpe
