// train.audit, as a user types it.

#include <gtest/gtest.h>

#include <filesystem>

#include "app/train_command.h"

namespace lockstep::app {
namespace {

class AuditCommand : public TrainCommand {
 protected:
  void refused(const std::vector<std::string>& more, const std::string& why, const std::string& remedy) const {
    std::vector<std::string> all = words("refused", {"train.audit=2", "train.threads=1"});
    all.insert(all.end(), more.begin(), more.end());
    const Outcome outcome = lockstep(all);
    EXPECT_EQ(outcome.code, 2) << outcome.err;
    EXPECT_NE(outcome.err.find("train.audit = 2: " + why), std::string::npos) << outcome.err;
    EXPECT_NE(outcome.err.find("train.audit=0, or " + remedy), std::string::npos) << outcome.err;
    EXPECT_FALSE(std::filesystem::exists(folder_ / "refused" / "metrics.jsonl"));
  }
};

TEST_F(AuditCommand, ChangesNothingThatIsLearned) {
  ASSERT_EQ(lockstep(words("plain", {"--ranks", "2", "train.threads=1"})).code, 0);
  const Outcome audited = lockstep(words("audited", {"--ranks", "2", "train.threads=1", "train.audit=2"}));
  ASSERT_EQ(audited.code, 0) << audited.err;
  EXPECT_EQ(losses("audited"), losses("plain"));
}

TEST_F(AuditCommand, WhatCannotBeAuditedIsRefusedWithARemedy) {
  refused({}, "there is one replica (parallel.dp = 1)", "start more ranks, for parallel.dp=2");
  refused({"--ranks", "3", "train.backend=ps"}, "workers of parameter servers", "train.backend=DDP");
  refused({"--ranks", "2", "numerics.canonical=true"}, "in canonical mode", "numerics.canonical=false");
  refused({"train.device=cuda"}, "checksums of gradients are made of what lies in the host's memory", "train.device=cpu");
}

}  // namespace
}  // namespace lockstep::app
