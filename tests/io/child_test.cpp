#include "io/child.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <csignal>

#include "base/error.h"
#include "base/timer.h"

namespace lockstep::io {
namespace {

ChildOutcome shell(const std::string& script, double seconds = 60) { return run_child({"sh", "-c", script, "it's"}, seconds); }

TEST(Child, SaysWhatItSaysAndHowItEnds) {
  const ChildOutcome good = shell("echo $0; echo oops >&2; wc -c");
  EXPECT_EQ(good.out, "it's\n0\n") << "there is no input";
  EXPECT_EQ(good.err, "oops\n");
  EXPECT_EQ(good.status, 0);
  EXPECT_FALSE(good.timed_out);
  EXPECT_EQ(shell("exit 7").status, 7);
  EXPECT_EQ(shell("kill -TERM $$").status, 128 + 15);
  EXPECT_EQ(shell("head -c 300000 /dev/zero; head -c 300000 /dev/zero >&2").err.size(), 300000U);
}

TEST(Child, GetsInputAndHandsItsOutputOverAsItComes) {
  std::string pieces;
  const auto take = [&](std::string_view piece) { pieces += piece; };
  const ChildOutcome outcome = run_child({"sh", "-c", "cat; echo oops >&2"}, 60, {.input = "a\nb", .out = take});
  EXPECT_EQ(pieces, "a\nb");
  EXPECT_EQ(outcome.out, "");
  EXPECT_EQ(outcome.err, "oops\n");
  EXPECT_EQ(run_child({"true"}, 60, {.input = std::string(60000, 'x')}).status, 0) << "one that reads nothing";
}

TEST(Child, IsKilledByWhatItsReaderThrows) {
  const double since = now_seconds();
  const auto refuse = [](std::string_view) { throw UserError("enough"); };
  EXPECT_THROW(run_child({"sh", "-c", "echo begun; sleep 1000"}, 2000, {.out = refuse}), UserError);
  EXPECT_LT(now_seconds() - since, 30);
}

TEST(Child, AProgramThatIsNotThereIsNotStarted) {
  const ChildOutcome outcome = run_child({"no-such-program"}, 1);
  EXPECT_EQ(outcome.start_error, ENOENT);
  EXPECT_EQ(outcome.status, 127);
}

TEST(Child, OneThatThisProcessIsNotToldOfHasFailed) {
  std::signal(SIGCHLD, SIG_IGN);
  const ChildOutcome outcome = shell("exit 5");
  std::signal(SIGCHLD, SIG_DFL);
  EXPECT_NE(outcome.status, 0);
}

TEST(Child, IsKilledWithWhatItStartedWhenItTakesTooLong) {
  for (const char* script :
       {"echo begun; sleep 1000", "echo begun; sleep 1000 & wait", "echo begun; exec >&- 2>&-; sleep 1000"}) {
    const double since = now_seconds();
    const ChildOutcome outcome = shell(script, 0.2);
    EXPECT_TRUE(outcome.timed_out) << script;
    EXPECT_EQ(outcome.out, "begun\n");
    EXPECT_EQ(outcome.status, 128 + 9);
    EXPECT_LT(now_seconds() - since, 30);
  }
}

}  // namespace
}  // namespace lockstep::io
