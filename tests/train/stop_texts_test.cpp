// Texts that end a text, wherever tokens cut them.

#include "train/texts/stop_texts.h"

#include <gtest/gtest.h>

#include <vector>

namespace lockstep::train {
namespace {

struct Written {
  std::string text;
  bool found = false;
  bool operator==(const Written&) const = default;
};

/// `text` in pieces of `size` bytes.
Written write(std::string_view text, const std::vector<std::string>& stops, std::size_t size) {
  StopTexts stop(stops);
  Written written;
  for (std::size_t at = 0; at < text.size() && !stop.found(); at += size) written.text += stop.add(text.substr(at, size));
  written.text += stop.held();
  written.found = stop.found();
  return written;
}

TEST(StopTexts, EndATextBeforeThemWhereverItIsCut) {
  struct Case {
    const char* text;
    std::vector<std::string> stops;
    Written right;
  };
  for (const Case& one : std::vector<Case>{{"User: hello", {"User:"}, {"", true}},
                                           {"well. User: hello", {"User:"}, {"well. ", true}},
                                           {"aaab", {"aab"}, {"a", true}},
                                           {"ababac", {"abac"}, {"ab", true}},
                                           {"one two", {"three"}, {"one two", false}},
                                           {"almost thre", {"three"}, {"almost thre", false}},
                                           {"xabcd", {"abcde", "bc"}, {"xa", true}},
                                           {"xabcd", {"bcd", "abcd"}, {"x", true}},
                                           {"caf\xC3\xA9 au lait", {"\xA9"}, {"caf\xC3", true}},
                                           {"anything", {}, {"anything", false}}}) {
    for (std::size_t size = 1; size <= 18; ++size)
      EXPECT_EQ(write(one.text, one.stops, size), one.right)
          << one.text << " by " << size << ": " << write(one.text, one.stops, size).text;
  }
}

TEST(StopTexts, HoldBackNoMoreThanMayBecomeOne) {
  const std::vector<std::string> stops = {"###", "END"};
  StopTexts stop(stops);
  EXPECT_EQ(stop.add("a#"), "a");
  EXPECT_EQ(stop.held(), "#");
  EXPECT_EQ(stop.add("b"), "#b");
  EXPECT_EQ(stop.add("E"), "");
  EXPECT_EQ(stop.add("N"), "");
  EXPECT_EQ(stop.add("ED"), "ENED") << "what cannot be one any more comes at once";
  EXPECT_EQ(stop.held(), "");
}

}  // namespace
}  // namespace lockstep::train
