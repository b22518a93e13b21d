#pragma once

// `lockstep report` as a user types it, beside two runs: one, and piped, of two ranks with half of the layers each.

#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "app/train_command.h"

namespace lockstep::app {

inline Outcome report(std::vector<std::string> words) {
  words.insert(words.begin(), "report");
  return lockstep(std::move(words));
}

class ReportCommand : public TrainCommand {
 protected:
  void SetUp() override {
    TrainCommand::SetUp();
    ASSERT_EQ(lockstep(words("one")).code, 0);
    ASSERT_EQ(lockstep(words("piped", {"--ranks", "2", "parallel.pp=2", "optimizer.gas=2", "train.threads=1"})).code, 0);
  }
  void TearDown() override {
    setenv("PATH", path_.c_str(), 1);
    unsetenv("BROWSER");
  }
  std::string run(const std::string& name) const { return (folder_ / name).string(); }
  const std::string path_ = std::getenv("PATH");
};

}  // namespace lockstep::app
