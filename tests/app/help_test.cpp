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

TEST(Help, BreaksALongWordBehindASign) {
  EXPECT_EQ(folded("one of fp32|float32|bf16 or", 12), "one of fp32|\nfloat32|bf16\nor");
  EXPECT_EQ(folded("a|b|c", 80), "a|b|c");
}

TEST(Help, FoldsACommandSoThatItCanBePasted) {
  EXPECT_EQ(folded_command("lockstep train a b c", 20, 2), "  lockstep train a \\\n      b c");
  EXPECT_EQ(folded_command("lockstep train", 80, 2), "  lockstep train");
  EXPECT_EQ(folded_command("say \"of two words\" x", 16, 0), "say \\\n    \"of two words\" \\\n    x");
  EXPECT_EQ(folded_command("a  # why", 80, 0), "a  # why");
}

TEST(Help, AlignsTwoColumns) {
  const std::string wide(40, 'w');
  EXPECT_EQ(two_columns({{"a", "first"}, {"bcd", "second one"}, {wide, "third"}}, 14),
            "  a    first\n  bcd  second\n       one\n  " + wide + "\n       third\n");
}

}  // namespace
}  // namespace lockstep::app
