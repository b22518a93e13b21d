// The words of a shell script, without running it.

#include "app/plan/foreign/script_words.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include "base/error.h"

namespace lockstep::app {
namespace {

std::string words(std::string_view script) { return fmt::format("{}", fmt::join(script_words(script, "a.sh"), "|")); }

TEST(ScriptWords, CommandsAndArraysGiveTheirWords) {
  EXPECT_EQ(words("torchrun a.py --x 1 \\\n  --y=2 # --z 3\n"), "torchrun|a.py|--x|1|--y=2");
  EXPECT_EQ(words("ARGS=(\n  --x 1\n  # --no 2\n  --y 2\n)\nrun ${ARGS[@]}\n"), "--x|1|--y|2|run|${ARGS[@]}");
  EXPECT_EQ(words("A+=( \"--x 1\" '--y 2' )"), "--x|1|--y|2");
  EXPECT_EQ(words("MODEL=\" \\\n  --x 1 \\\n  --split 99,1 \\\n\""), "--x|1|--split|99,1");
  EXPECT_EQ(words("A=(\"--split '99,1,0'\")"), "--split|99,1,0");
  EXPECT_EQ(words("echo \"two words\" 'a\"b' a\\ b"), "echo|two words|a\"b|a b");
}

TEST(ScriptWords, VariablesOfTheScriptArePutIn) {
  EXPECT_EQ(words("TP=2\nrun --tp $TP --pp ${TP} --x \"$TP\" --y '$TP'"), "run|--tp|2|--pp|2|--x|2|--y|$TP");
  EXPECT_EQ(words("A=3\nB=$((A * 4 + 2 * (A - 1) / 2))\nrun $B"), "run|14");
  EXPECT_EQ(words("A=8; W=$(($A*${A})); run $W"), "run|64");
  EXPECT_EQ(words("run ${N:-4} ${2:-\"b\"} ${M-5}"), "run|4|b|5");
  EXPECT_EQ(words("N=7\nrun ${N:-4}"), "run|7");
  EXPECT_EQ(words("X=${X:-2}; export Y=$X; run $Y"), "export|run|2");
  EXPECT_EQ(words("run $UNSET ${UNSET} $1 $((UNSET*2)) $(date)"), "run|$UNSET|${UNSET}|$1|$((UNSET*2))|$(date)");
  EXPECT_EQ(words("run $((1/0)) $((9223372036854775807+1)) ${X"), "run|$((1/0))|$((9223372036854775807+1))|${X");
}

TEST(ScriptWords, BothBranchesOfAConditionAreThere) {
  EXPECT_EQ(words("if [ \"$A\" == b ]; then X=( --x 1 ); else X=( --x 2 ); fi"), "if|[|$A|==|b|]|then|--x|1|else|--x|2|fi");
}

TEST(ScriptWords, VariablesThatGrowWithoutEndAreRefused) {
  std::string script = "A=0123456789012345678901234567890123456789\n";
  for (int i = 0; i < 40; ++i) script += "A=$A$A\n";
  try {
    script_words(script, "big.sh");
    FAIL() << "was read";
  } catch (const UserError& error) {
    EXPECT_NE(std::string(error.what()).find("big.sh: its variables make more than a megabyte"), std::string::npos)
        << error.what();
  }
  EXPECT_EQ(words("A=((((((((((((((((((((((((((((((((((((((1)))))))))))"), "1") << "brackets part words";
}

}  // namespace
}  // namespace lockstep::app
