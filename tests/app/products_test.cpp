// numerics.products=library: a run whose products are oneDNN's.

#include <gtest/gtest.h>

#include <cstdlib>

#include "app/settings/checks.h"
#include "app/settings/run_config.h"
#include "app/start/resolve.h"
#include "app/train_command.h"
#include "checkpoint/find.h"
#include "ops/cpu/library/library.h"

namespace lockstep::app {
namespace {

// What is wrong with the settings, as far as it concerns products.
std::string complaint(const std::vector<std::string>& overrides) {
  for (const Problem& problem : check_runnable(settings::resolve({.files = {}, .overrides = overrides}).config))
    if (problem.message.starts_with("numerics.products")) return problem.message;
  return "";
}

TEST(ProductsSetting, IsRefusedWhereTheLibraryLacksThem) {
  EXPECT_EQ(complaint({}), "");
  EXPECT_EQ(complaint({"train.dtype=bf16"}), "");
  if (!ops::cpu::has_library()) GTEST_SKIP() << "oneDNN is not here";
  EXPECT_EQ(complaint({"numerics.products=library", "train.dtype=fp32"}), "");
  const std::string half = complaint({"numerics.products=library", "train.dtype=bf16"});
  EXPECT_EQ(half.empty(), ops::cpu::library_has(DType::bf16));
  EXPECT_TRUE(half.empty() || half.find("has no bf16 products on this processor") != std::string::npos) << half;
}

TEST(ProductsSetting, IsRefusedWithoutThePlugin) {
  setenv("LOCKSTEP_PLUGINS", "/no/such/folder", 1);
  EXPECT_EQ(complaint({"numerics.products=library"}),
            "numerics.products=library is oneDNN's: there is no lockstep-onednn.so in /no/such/folder");
  unsetenv("LOCKSTEP_PLUGINS");
}

class LibraryRun : public TrainCommand {
 protected:
  void SetUp() override {
    if (!ops::cpu::has_library()) GTEST_SKIP() << "oneDNN is not here";
    TrainCommand::SetUp();
  }
  std::vector<std::string> library_words(const std::string& run, std::vector<std::string> more = {}) const {
    more.insert(more.end(), {"numerics.products=library", "train.dtype=fp32"});
    return words(run, more);
  }
};

TEST_F(LibraryRun, LearnsWhatOursLearnsAndSaysSo) {
  ASSERT_EQ(lockstep(words("ours", {"train.dtype=fp32"})).code, 0);
  const Outcome outcome = lockstep(library_words("theirs"));
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_NE((outcome.out + outcome.err).find("(numerics.products=library): their bits may differ"), std::string::npos);
  EXPECT_NE(file("theirs/config.json").find("\"products\": \"library\""), std::string::npos);
  const std::vector<double> ours = losses("ours"), theirs = losses("theirs");
  ASSERT_EQ(theirs.size(), ours.size());
  for (std::size_t i = 0; i < ours.size(); ++i) EXPECT_NEAR(theirs[i], ours[i], 1e-4 * ours[i]);
}

TEST_F(LibraryRun, OfRanksLearnsTheSame) {
  const Outcome outcome = lockstep(library_words("ranks", {"--ranks", "2", "train.threads=1", "model.batch_size=2"}));
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  ASSERT_EQ(lockstep(words("ours", {"train.dtype=fp32"})).code, 0);
  const std::vector<double> ours = losses("ours"), theirs = losses("ranks");
  ASSERT_EQ(theirs.size(), ours.size());
  for (std::size_t i = 0; i < ours.size(); ++i) EXPECT_NEAR(theirs[i], ours[i], 1e-4 * ours[i]);
}

TEST_F(LibraryRun, AnUnknownWordIsRefused) {
  const Outcome outcome = lockstep(words("none", {"numerics.products=theirs"}));
  EXPECT_EQ(outcome.code, 2);
  EXPECT_NE(outcome.err.find("numerics.products"), std::string::npos) << outcome.err;
}

}  // namespace
}  // namespace lockstep::app
