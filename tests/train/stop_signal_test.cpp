#include "train/stop_signal.h"

#include <gtest/gtest.h>

#include <csignal>
#include <cstdlib>

#include "base/error.h"

namespace lockstep::train {
namespace {

TEST(StopSignal, RemembersAHangUp) {
  {
    const StopSignal signal;
    EXPECT_FALSE(signal.received());
    std::raise(SIGHUP);
    EXPECT_EQ(signal.received(), SIGHUP);
  }
  EXPECT_EQ(std::signal(SIGHUP, SIG_DFL), SIG_DFL);
}

// nohup ignores it before it starts the program.
TEST(StopSignal, AHangUpThatIsIgnoredStaysSo) {
  std::signal(SIGHUP, SIG_IGN);
  {
    const StopSignal signal;
    std::raise(SIGHUP);
    EXPECT_FALSE(signal.received());
  }
  EXPECT_EQ(std::signal(SIGHUP, SIG_DFL), SIG_IGN);
}

TEST(StopSignal, ASecondInterruptEndsTheProgram) {
  const auto interrupted_twice = [] {
    const StopSignal signal;
    std::raise(SIGINT);
    std::raise(SIGINT);
    std::exit(0);
  };
  EXPECT_EXIT(interrupted_twice(), testing::KilledBySignal(SIGINT), "");
}

// A signal then would end the program before it says what went wrong.
TEST(StopSignal, AnErrorLeavesSignalsRemembered) {
  const auto failed = [] {
    try {
      const StopSignal signal;
      throw UserError("wrong");
    } catch (const UserError&) {
      std::raise(SIGINT);
    }
    std::exit(0);
  };
  EXPECT_EXIT(failed(), testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace lockstep::train
