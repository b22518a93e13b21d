// train.audit, as a user types it.

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "app/settings/checks.h"
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
}

TEST(AuditSettings, AGpuIsRefusedWithARemedy) {
  RunConfig config;
  config.train.audit = 2;
  config.train.device = DeviceKind::cuda;
  const auto is_it = [](const Problem& problem) {
    return problem.message.starts_with("train.audit = 2: checksums of gradients");
  };
  const std::vector<Problem> problems = check(config);
  const auto found = std::ranges::find_if(problems, is_it);
  ASSERT_NE(found, problems.end());
  EXPECT_EQ(found->remedy, "train.audit=0, or train.device=cpu");
  config.train.audit = 0;
  EXPECT_TRUE(std::ranges::none_of(check(config), is_it));
}

TEST(ServerSettings, AGpuIsRefusedWithARemedy) {
  RunConfig config;
  config.train.device = DeviceKind::cuda;
  config.train.backend = BackendKind::ps;
  const std::vector<Problem> problems = check(config);
  const auto found =
      std::ranges::find_if(problems, [](const Problem& problem) { return problem.message.starts_with("train.device = cuda: "); });
  ASSERT_NE(found, problems.end());
  EXPECT_EQ(found->remedy, "train.device=cpu, or train.backend=DDP");
}

}  // namespace
}  // namespace lockstep::app
