#include <gtest/gtest.h>

#include "base/text/columns.h"

namespace lockstep::app {
namespace {

TEST(Help, FoldsBetweenWords) {
  EXPECT_EQ(folded("one two three", 7), "one two\nthree");
  EXPECT_EQ(folded("one two three", 7, 2), "one\n  two\n  three");
  EXPECT_EQ(folded("unbreakable", 4), "unbreakable");
  EXPECT_EQ(folded("", 10), "");
}

TEST(Help, KeepsLineBreaksAndCommands) {
  EXPECT_EQ(folded("one\ntwo  three", 80), "one\ntwo three");
  EXPECT_EQ(folded("try:\n  lockstep train a=b  c=d\nthen", 10), "try:\n  lockstep train a=b  c=d\nthen");
}

TEST(Help, AlignsTwoColumns) {
  const std::string wide(40, 'w');
  EXPECT_EQ(two_columns({{"a", "first"}, {"bcd", "second one"}, {wide, "third"}}, 14),
            "  a    first\n  bcd  second\n       one\n  " + wide + "\n       third\n");
}

}  // namespace
}  // namespace lockstep::app
