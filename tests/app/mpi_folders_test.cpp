// Ranks whose folders differ, as on hosts that share no file system.

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "app/mpi_command.h"

namespace lockstep::app {
namespace {

class MpiFolders : public MpiCommand {
 protected:
  /// On two ranks, each in a working folder of its own, `folder_`/0 and /1.
  test::JobOutcome run_apart(const std::vector<std::string>& words) const {
    for (const char* rank : {"0", "1"}) std::filesystem::create_directories(folder_ / rank);
    const std::string enter = "sh -c 'cd \"$0/$OMPI_COMM_WORLD_RANK\" && exec \"$@\"' " + folder_.path().string() + " ";
    return test::run_job(2, enter + text_of(words));
  }
};

TEST_F(MpiFolders, OtherRunFoldersAreToldBeforeTheyTrain) {
  std::vector<std::string> ranks = on_two("run", {"comm.timeout=4"});
  std::ranges::replace(ranks, "log.dir=" + (folder_ / "run").string(), std::string("log.dir=run"));
  const test::JobOutcome outcome = run_apart(ranks);
  EXPECT_EQ(outcome.code, 2) << outcome.output;
  EXPECT_NE(outcome.output.find("rank 1: run: on "), std::string::npos) << outcome.output;
  EXPECT_NE(outcome.output.find("not the folder that rank 0 writes into"), std::string::npos) << outcome.output;
  EXPECT_NE(outcome.output.find("log.dir="), std::string::npos) << outcome.output;
  EXPECT_FALSE(std::filesystem::exists(folder_ / "0" / "run")) << "nothing is left";
  EXPECT_FALSE(std::filesystem::exists(folder_ / "1" / "run"));
}

// Only the first has the text in its working folder.
TEST_F(MpiFolders, OnlyReadersOpenTheText) {
  const std::vector<std::string> more{"data.io=readers", "train.eval_interval=4", "model.dropout=0.1"};
  std::vector<std::string> threads = on_two("all_see_it", more);
  threads.insert(threads.end(), {"--ranks", "2"});
  ASSERT_EQ(lockstep(threads).code, 0);
  std::vector<std::string> ranks = on_two("one_sees_it", more);
  std::ranges::replace(ranks, "data.dir=" + (folder_ / "data").string(), std::string("data.dir=here"));
  std::filesystem::create_directory(folder_ / "0");
  std::filesystem::create_symlink(folder_ / "data", folder_ / "0" / "here");
  const test::JobOutcome outcome = run_apart(ranks);
  ASSERT_EQ(outcome.code, 0) << outcome.output;
  EXPECT_EQ(losses("one_sees_it"), losses("all_see_it"));
  EXPECT_TRUE(file("one_sees_it/checkpoints/step_8/model.safetensors") ==
              file("all_see_it/checkpoints/step_8/model.safetensors"));
}

}  // namespace
}  // namespace lockstep::app
