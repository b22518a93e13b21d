#include "base/shell.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

TEST(Shell, WordsThatItWouldReadOtherwiseAreQuoted) {
  EXPECT_EQ(shell_words({"a", "", "b c", "it's", "$x", "k=v,w:1"}), "a '' 'b c' 'it'\\''s' '$x' k=v,w:1");
}

TEST(Shell, ControlCharactersAreWritten) { EXPECT_EQ(shell_words({"a\nb", "\x1B'\\"}), "$'a\\x0ab' $'\\x1b\\'\\\\'"); }

}  // namespace
}  // namespace lockstep
