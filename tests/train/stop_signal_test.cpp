#include "train/stop_signal.h"

#include <gtest/gtest.h>

#include <csignal>

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

}  // namespace
}  // namespace lockstep::train
