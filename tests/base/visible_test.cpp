#include "base/text/visible.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/text/utf8.h"

namespace lockstep {
namespace {

TEST(Visible, WhatATerminalPrintsStays) {
  for (const std::string text :
       {"", "plain, \"quoted\" and \\", "na\u00EFve \u65E5\u672C \U0001F600 \u0645\u06CC\u200C\u062E \u2588"}) {
    EXPECT_EQ(visible(text), text);
    EXPECT_EQ(visible(text, LineBreaks::kept), text);
  }
}

TEST(Visible, WhatSteersATerminalIsWritten) {
  EXPECT_EQ(visible("a\x1B[31mb\a\x7F"), "a\\x1b[31mb\\x07\\x7f");
  EXPECT_EQ(visible(std::string("\0", 1)), "\\x00");
  EXPECT_EQ(visible("a\nb\tc\rd"), "a\\nb\\tc\\rd");
  EXPECT_EQ(visible("a\nb\tc\rd", LineBreaks::kept), "a\nb\tc\\rd");
  EXPECT_EQ(visible("\u009B1m \u202Etxt.exe \uFEFFa\u200Bb \u2028 \U000E0041"),
            "\\u009b1m \\u202etxt.exe \\ufeffa\\u200bb \\u2028 \\U000e0041");
}

TEST(Visible, BytesThatAreNotUtf8AreWritten) {
  EXPECT_EQ(visible("caf\xE9 \xE2\x82"), "caf\\xe9 \\xe2\\x82");
  EXPECT_EQ(visible("\xED\xA0\x80\xC0\xAF"), "\\xed\\xa0\\x80\\xc0\\xaf");
}

TEST(Visible, IsValidAndStaysAsItIs) {
  std::string all;
  for (int byte = 0; byte < 256; ++byte) all += static_cast<char>(byte);
  for (char32_t point = 0x80; point < 0x110000; point += point < 0x3000 ? 1 : 0x9D) {
    if (point < 0xD800 || point > 0xDFFF) append_utf8(all, point);
  }
  for (const LineBreaks breaks : {LineBreaks::escaped, LineBreaks::kept}) {
    const std::string once = visible(all, breaks);
    EXPECT_EQ(invalid_utf8_at(once), std::string::npos);
    EXPECT_EQ(visible(once, breaks), once);
  }
}

TEST(Visible, ErrorsAreOneLineAProblem) {
  const UserError error("there is no text a\nb\x1B]0;title\a", "name another than \xFF");
  EXPECT_STREQ(error.what(), "there is no text a\\nb\\x1b]0;title\\x07\n  -> name another than \\xff");
  EXPECT_EQ(error.problems().front().message, "there is no text a\\nb\\x1b]0;title\\x07");
}

TEST(ByteOrderMark, IsSkippedWhereItBegins) {
  EXPECT_EQ(without_mark("\uFEFFa,b"), "a,b");
  EXPECT_EQ(without_mark("a\uFEFF"), "a\uFEFF");
  EXPECT_EQ(without_mark("\xEF\xBB"), "\xEF\xBB");
}

}  // namespace
}  // namespace lockstep
