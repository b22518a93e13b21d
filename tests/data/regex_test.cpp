#include "data/pattern/regex.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "data/bpe/words.h"
#include "data/support.h"
#include "support/text.h"

namespace lockstep::data::pattern {
namespace {

// The matches of a text, with | behind each; what is in none is left out.
std::string found(std::string_view pattern, std::string_view text) {
  const Regex regex(pattern);
  MatchScratch scratch;
  std::string all;
  for (Regex::Found match = regex.find(text, 0, scratch); match.begin < text.size();
       match = regex.find(text, match.end, scratch)) {
    all += std::string(text.substr(match.begin, match.end - match.begin)) + "|";
  }
  return all;
}

std::string refused(std::string_view pattern) {
  return user_error([&] { Regex regex(pattern); });
}

TEST(Regex, MatchesAsOniguruma) {
  EXPECT_EQ(found("a|ab", "ab"), "a|");
  EXPECT_EQ(found("(?:a|ab)(c|bcd)d?", "abcd"), "abcd|");
  EXPECT_EQ(found("a*b", "aaab aac b"), "aaab|b|");
  EXPECT_EQ(found("a++a|a", "aa"), "a|a|");
  EXPECT_EQ(found("a+?b?", "aab"), "a|ab|");
  EXPECT_EQ(found("a{2,3}", "aaaaa"), "aaa|aa|");
  EXPECT_EQ(found("(?:ab){1,2}+c|x{,2}y", "ababababc xxxy"), "ababababc|xxy|");
  EXPECT_EQ(found(R"(\s+(?!\S)|\s)", "a   b  "), "  | |  |");
  EXPECT_EQ(found(R"(\p{N}{1,3}(?=(?:\p{N}{3})*(?!\p{N})))", "1234567"), "1|234|567|");
  EXPECT_EQ(found(R"((?i:k[s-t]))", "KS k\u017F \u212At Ku"), "KS|k\u017F|\u212At|");
  EXPECT_EQ(found(R"([a-c&&[^b]\]-])", "abc]-"), "a|c|");
  EXPECT_EQ(found(R"([^(\s|[.,!])]+)", "ab c.d(e"), "ab|c|d|e|");
  EXPECT_EQ(found(R"(\x{4E00}\u4e01|\x41|\t.)", "\u4E00\u4E01A\tx"), "\u4E00\u4E01|A|\tx|");
  EXPECT_EQ(found(R"(\P{L}+|\p{^Lu}\D\W?)", "1.aB"), "1.|aB|");
  EXPECT_EQ(found(R"(\b\w|\w\B.)", "abc, c-d"), "a|bc|c|d|");
  EXPECT_EQ(found(R"(\w+)", "x\u00B2a\u2460\u00BD_"), "x\u00B2a|\u00BD_|");
  EXPECT_EQ(found(R"([\w]+|[^\W\d])", "x\u00B2a\u2460\u00BD_"), "x|a|_|") << "in brackets it lacks them";
  EXPECT_EQ(found(R"(\W+)", "x\u00B2\u2460\u00BD"), "\u2460|");
  EXPECT_EQ(found(R"([\W]+)", "x\u00B2\u2460\u00BD"), "\u00B2\u2460\u00BD|");
  EXPECT_EQ(found(R"((?<=\d)[a-z]+|(?<!x|\s\s)\.)", "1ab cd .x.  ."), "ab|.|");
  EXPECT_EQ(found(R"((?<=ab|\u00e9.)c)", "abc \u00e9\u00e9c xc"), "c|c|");
  EXPECT_EQ(found("[^a]b",
                  "\xFF"
                  "b\xC3"),
            "\xFF"
            "b|");
  EXPECT_EQ(found(quoted("a.\u00E9"), "xa.\u00E9"), "a.\u00E9|");
}

TEST(Regex, RefusesWhatItDoesNotKnow) {
  for (const auto& [pattern, what] :
       std::vector<std::pair<std::string, std::string>>{{"a$", "operator $"},
                                                        {"^a", "operator ^"},
                                                        {R"(\Gx)", R"(\G)"},
                                                        {"(?<=a+)x", "several lengths"},
                                                        {"(?<!a(?=b))x", "a look within"},
                                                        {R"(\b)", R"(pattern "\\b" may match an empty text)"},
                                                        {R"(\p{Han})", "property Han"},
                                                        {"(?<x>a)", "(?<x"},
                                                        {"(?>a)", "(?>"},
                                                        {"(a", "without an end"},
                                                        {"a)", "unexpected )"},
                                                        {"[a", "no end"},
                                                        {"[[:alpha:]]", "class [:"},
                                                        {"[b-a]", "earlier one"},
                                                        {"(?:ab)++", "never gives up"},
                                                        {"(?:a?)*b", "may be empty"},
                                                        {"a**", "behind another"},
                                                        {"a{2}{3}", "behind another"},
                                                        {"a{3,2}", "operator {"},
                                                        {"a{9999}", "more than 1000"},
                                                        {"(?i:\u00E9)", "beyond ASCII"},
                                                        {"(?i:ss)", "ligature"},
                                                        {"(?i:[\u00E9])", "beyond ASCII"},
                                                        {"a?", R"(pattern "a?" may match an empty text)"},
                                                        {"a\xFF", "valid UTF-8"},
                                                        {R"(\x{110000}a)", "no such number"},
                                                        {R"(\xE9)", "no such number"},
                                                        {"(?:(?:ab){1000}){1000}", "more than 2000"},
                                                        {std::string(100, '(') + "a", "too many groups"}}) {
    EXPECT_TRUE(contains(refused(pattern), what)) << pattern << ": " << refused(pattern);
  }
}

TEST(Regex, GivesUpOnAMatchWithoutEnd) {
  const Regex regex("(?:a|a)+b");
  MatchScratch scratch;
  const std::string text(5000, 'a');
  EXPECT_TRUE(contains(user_error([&] { regex.find(text, 0, scratch); }), "takes too long"));
}

TEST(Regex, KnowsWhereATextMayBeCut) {
  for (const bpe::Pattern pattern : {bpe::Pattern::gpt2, bpe::Pattern::llama3, bpe::Pattern::qwen2}) {
    const Regex regex(bpe::regex_of(pattern));
    for (const char32_t a : std::u32string(U"azAZ09")) {
      EXPECT_TRUE(regex.always_takes(a) && !regex.reaches_over(a, ' ') && !regex.reaches_over(a, '\n'));
    }
  }
  EXPECT_TRUE(Regex(R"(\p{L}+\s)").reaches_over('a', ' '));
  EXPECT_TRUE(Regex(R"(\p{L}+(?=\s))").reaches_over('a', ' '));
  EXPECT_TRUE(Regex(R"((?:\p{L}|\s)+)").reaches_over('a', ' '));
  EXPECT_FALSE(Regex(R"(\p{L}+\p{N})").always_takes('a'));
  EXPECT_FALSE(Regex(R"(\p{L}{2,})").always_takes('a'));
  EXPECT_TRUE(Regex(R"(\p{L}{2,})").may_take('a'));
  EXPECT_FALSE(Regex(R"(\p{L}{2,})").may_take('1'));
}

// The words of the patterns that have code of their own.
TEST(Regex, HasTheWordsOfWords) {
  const std::string text = "It's WE'LL 12345  x\n\n  y\u00E9 \u4E00\u0301!? \t\r\n ...\xFF end  ";
  for (const bpe::Pattern pattern : {bpe::Pattern::gpt2, bpe::Pattern::llama3, bpe::Pattern::qwen2}) {
    const bpe::Words words(pattern);
    std::string expected;
    for (std::size_t at = 0; at < text.size(); at = words.end(text, at))
      expected += text.substr(at, words.end(text, at) - at) + "|";
    EXPECT_EQ(found(bpe::regex_of(pattern), text), expected);
  }
}

}  // namespace
}  // namespace lockstep::data::pattern
