#include "checkpoint/retention.h"

#include <gtest/gtest.h>

#include "checkpoint/find.h"
#include "checkpoint/sample.h"

namespace lockstep::checkpoint {
namespace {

namespace fs = std::filesystem;
using Steps = std::vector<std::int64_t>;

TEST(Retention, KeepsTheBestAndTheLastTwo) {
  EXPECT_EQ(superseded({}), Steps{});
  EXPECT_EQ(superseded({{1, {}}}), Steps{});
  EXPECT_EQ(superseded({{1, 9.0}, {2, 8.0}}), Steps{});
  EXPECT_EQ(superseded({{1, 9.0}, {2, 8.0}, {3, 7.0}}), Steps{1});
  EXPECT_EQ(superseded({{1, 1.0}, {2, 8.0}, {3, 7.0}, {4, 6.0}}), Steps{2});
  EXPECT_EQ(superseded({{4, 6.0}, {2, 8.0}, {1, 1.0}, {3, 7.0}}), Steps{2});
  EXPECT_EQ(superseded({{1, 1.0}, {2, 1.0}, {3, 7.0}, {4, 6.0}}), Steps{2});  // of equal ones the first
}

TEST(Retention, ALossThatWasNotMeasuredIsNeverTheBest) {
  EXPECT_EQ(superseded({{1, {}}, {2, {}}, {3, {}}, {4, {}}}), (Steps{1, 2}));
  EXPECT_EQ(superseded({{1, {}}, {2, 5.0}, {3, {}}, {4, {}}}), Steps{1});
}

TEST(Retention, OneAlwaysStays) {
  EXPECT_EQ(superseded({{1, 2.0}, {2, 1.0}}, 0), Steps{1});
  EXPECT_EQ(superseded({{1, 1.0}, {2, 2.0}}, 0), Steps{});
  EXPECT_EQ(superseded({{1, {}}, {2, {}}}, -5), Steps{1});
  EXPECT_EQ(superseded({{1, {}}, {2, {}}, {3, {}}}, 100), Steps{});
}

TEST(Retention, DeletesFromTheRunWhatIsSuperseded) {
  TempFolder run;
  Team team(1);
  Sample sample;
  for (const auto& [step, loss] : {std::pair{10, 3.0}, {20, 2.0}, {30, 2.5}, {40, 2.6}}) {
    save(run.path(), sample.content(), sample_manifest(step, loss), team);
  }
  // Damaged ones are not ours to delete: their owner may want to look at them.
  fs::create_directories(run.path() / "checkpoints" / "step_5");
  io::replace_file(run.path() / "checkpoints" / "step_5" / "manifest.json", "{");
  EXPECT_EQ(apply_retention(run.path() / "checkpoints"), Steps{10});
  Steps left;
  for (const Found& found : list_checkpoints(run.path())) left.push_back(found.step);
  EXPECT_EQ(left, (Steps{5, 20, 30, 40}));
  EXPECT_EQ(apply_retention(run.path() / "checkpoints"), Steps{});
  EXPECT_EQ(apply_retention(run.path() / "nothing"), Steps{});
}

}  // namespace
}  // namespace lockstep::checkpoint
