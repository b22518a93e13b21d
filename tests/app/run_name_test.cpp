// What a run is called, and the curves it leaves for TensorBoard.

#include <gtest/gtest.h>

#include "app/train_command.h"
#include "support/event_file.h"

namespace lockstep::app {
namespace {

using support::EventReader;
using support::SummaryEvent;

class NamedRun : public TrainCommand {
 protected:
  Json last_line(const std::string& run) const {
    std::string metrics = file(run + "/metrics.jsonl");
    metrics.pop_back();
    return Json::parse(metrics.substr(metrics.rfind('\n') + 1));
  }
  std::string name_in_checkpoint(const std::string& run, int step) const {
    const std::string manifest = file(run + "/checkpoints/step_" + std::to_string(step) + "/manifest.json");
    return Json::parse(manifest).at("run").at("name").string();
  }
};

TEST_F(NamedRun, KeepsItsNameOnAResume) {
  const Outcome outcome = lockstep(words("a", {"train.max_iters=4", "--ranks", "2"}));
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const std::string name = last_line("a").at("run").string();
  EXPECT_EQ(name, "a") << "its folder's";
  EXPECT_NE(outcome.out.find("Run:      " + (folder_ / "a").string() + "\n"), std::string::npos) << outcome.out;
  EXPECT_EQ(name_in_checkpoint("a", 4), name);
  EXPECT_EQ(Json::parse(file("a/config.json")).at("log").at("name").string(), name);
  ASSERT_EQ(lockstep(words("a", {"train.init_from=resume"})).code, 0);
  EXPECT_EQ(last_line("a").at("step").integer(), 8);
  EXPECT_EQ(last_line("a").at("run").string(), name);
  const Outcome named = lockstep(words("b", {"log.name=mine", "train.max_iters=2"}));
  EXPECT_NE(named.out.find("Run:      " + (folder_ / "b").string() + ", named mine\n"), std::string::npos) << named.out;
  EXPECT_EQ(name_in_checkpoint("b", 2), "mine");
}

TEST_F(NamedRun, WritesTensorBoardsFilesWhenAsked) {
  ASSERT_EQ(lockstep(words("without")).code, 0);
  EXPECT_FALSE(std::filesystem::exists(folder_ / "without/tensorboard"));
  ASSERT_EQ(lockstep(words("with", {"log.tensorboard=true", "train.max_iters=4", "--ranks", "2"})).code, 0);
  ASSERT_EQ(lockstep(words("with", {"log.tensorboard=true", "train.init_from=resume"})).code, 0);
  const auto files = EventReader::files(folder_ / "with/tensorboard");
  ASSERT_EQ(files.size(), 2U);  // rank 0's alone
  std::vector<double> train, val;
  for (const auto& path : files) {
    for (const SummaryEvent& event : EventReader::read(path)) {
      if (event.values.contains("loss/val")) val.push_back(static_cast<double>(event.step));
      if (!event.values.contains("loss/train")) continue;
      train.push_back(event.values.at("loss/train"));
      for (const char* tag : {"optimizer/lr", "optimizer/grad_norm", "speed/tokens_per_second", "speed/mfu"}) {
        EXPECT_GT(event.values.at(tag), 0) << tag;
      }
    }
  }
  const std::vector<double> expected = losses("with");
  ASSERT_EQ(train.size(), expected.size());
  for (std::size_t i = 0; i < train.size(); ++i) EXPECT_FLOAT_EQ(static_cast<float>(train[i]), static_cast<float>(expected[i]));
  EXPECT_EQ(val, (std::vector<double>{0, 4, 8}));
  EXPECT_EQ(EventReader::read(files[1])[1].step, 5) << "what was logged up to the checkpoint stays";
}

}  // namespace
}  // namespace lockstep::app
