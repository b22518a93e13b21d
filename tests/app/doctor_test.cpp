#include "app/fitness/doctor.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>

#include "app/cli/commands.h"
#include "app/cli/process.h"
#include "app/plan/machine_file.h"
#include "base/error.h"
#include "io/file.h"
#include "support/capture.h"
#include "support/temp_folder.h"

namespace lockstep::app {
namespace {

struct Examination {
  std::vector<std::vector<std::string>> causes;  // by rank
  std::string printed;
};

Examination examined(int ranks, const Checks& checks) {
  Examination result;
  result.causes.resize(static_cast<std::size_t>(ranks));
  Capture capture;
  run_on_ranks({.ranks = ranks, .threads = 1, .timeout = 60}, [&](Session& session) {
    Log log(capture.file(), session.lead() ? Level::info : Level::critical);
    Answer answer;
    result.causes[static_cast<std::size_t>(session.world().rank())] = examine(session, log, answer, checks);
  });
  result.printed = capture.text();
  return result;
}

Checks with_loss(double loss) {
  Checks checks;
  checks.loss = [loss](Session&, Log&) { return loss; };
  return checks;
}

TEST(Doctor, ShowsWhoHoldsWhatAndFindsNothing) {
  const Examination result = examined(3, with_loss(400));
  for (const auto& causes : result.causes) EXPECT_TRUE(causes.empty());
  for (const char* part :
       {"all_reduce: every rank gets the sum\n  rank 0   1 2 3 4 5 6     ->  6 12 18 24 30 36\n",
        "broadcast (root 2): every rank gets what the root has\n  rank 0   -               ->  3 6 9 12 15 18\n",
        "scatter (root 1): every rank gets its part of what the root has\n  rank 0   -              ->  2 4\n",
        "reduce (root 2): the root gets the sum\n  rank 0   1 2 3 4 5 6     ->  -\n",
        "bandwidths\n  memory, all ranks together"}) {
    EXPECT_NE(result.printed.find(part), std::string::npos) << part << "\n" << result.printed;
  }
  EXPECT_EQ(verdict({}).rfind("FIT: ", 0), 0U);
}

TEST(Doctor, AWrongCollectiveOnOneRankIsEverybodysVerdict) {
  Checks checks = with_loss(400);
  checks.collective = [](comm::Collective op, Session& session, Log&) -> std::optional<std::string> {
    if (op == comm::Collective::gather && session.world().rank() == 1) return "gather gave nonsense";
    return std::nullopt;
  };
  const Examination result = examined(2, checks);
  for (const auto& causes : result.causes) EXPECT_EQ(causes, std::vector<std::string>{"gather gave nonsense"});
  EXPECT_EQ(result.printed.find("bandwidths"), std::string::npos) << "nothing is measured with wrong collectives";
  EXPECT_EQ(verdict(result.causes[0]), "UNFIT: gather gave nonsense\n");
}

TEST(Doctor, ALossThatStaysHighIsACause) {
  for (const double loss : {600.0, 2000.0, std::nan("")}) {
    const Examination result = examined(1, with_loss(loss));
    ASSERT_EQ(result.causes[0].size(), 1U) << loss;
    EXPECT_NE(result.causes[0][0].find("the loss of test_dist on rank 0 is"), std::string::npos);
    EXPECT_EQ(verdict(result.causes[0]).rfind("UNFIT: the loss", 0), 0U);
  }
}

TEST(Doctor, ThisMachineIsFit) {
  const TempFolder folder;
  const std::filesystem::path before = std::filesystem::current_path();
  std::filesystem::current_path(folder.path());
  testing::internal::CaptureStdout();
  const int code = doctor_command().run({"--ranks", "2"});
  const std::string text = testing::internal::GetCapturedStdout();
  std::filesystem::current_path(before);
  EXPECT_EQ(code, 0) << text;
  EXPECT_NE(text.find("\nFIT: "), std::string::npos) << text;
  EXPECT_NE(text.find("iter=99, loss="), std::string::npos);
  EXPECT_TRUE(std::filesystem::exists(folder.path() / "test-dist-plots/train/loss.txt"));
}

TEST(Doctor, AnswersAsJsonIntoAFileToo) {
  const TempFolder folder;
  const std::filesystem::path before = std::filesystem::current_path();
  std::filesystem::current_path(folder.path());
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  EXPECT_EQ(doctor_command().run({"--ranks", "2", "--json", "--out", "fit.json"}), 0);
  std::filesystem::current_path(before);
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "");
  EXPECT_NE(testing::internal::GetCapturedStderr().find("all_reduce: every rank gets the sum"), std::string::npos);
  const Json answer = Json::parse(io::read_file(folder / "fit.json"));
  EXPECT_TRUE(answer.at("fit").boolean());
  EXPECT_TRUE(answer.at("causes").array().empty());
  EXPECT_EQ(answer.at("all_reduce").array().size(), 3U);
}

TEST(Doctor, WritesTheMachineFileThatThePlannerReads) {
  const TempFolder folder;
  const std::string path = (folder / "here.toml").string();
  const lab::ProbeOptions brief{.steps = 1, .small_sum = 64, .large_sum = 4096, .trials = 1, .disk_bytes = 1 << 20};
  std::string text;
  run_on_ranks({.ranks = 2, .threads = 1, .timeout = 60}, [&](Session& session) {
    const planner::Machine machine = measured_machine(path, brief, session);
    if (session.lead()) text = write_machine_file(path, machine);
  });
  for (const char* part : {"machine: 1 x 2 devices", "  one of 1   peak ", "  one of 2   peak ", "  between ranks of a host "})
    EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
  const planner::Machine machine = named_machine(path, 0);
  EXPECT_EQ(machine.devices, 2);
  EXPECT_EQ(machine.name, host_name());
  EXPECT_GT(machine.update_rate, 0);
  EXPECT_EQ(machine_text(machine), io::read_file(path));
  EXPECT_THROW(write_machine_file((folder / std::string(300, 'a')).string(), machine), UserError);
}

TEST(Doctor, AMachineFileThatCannotBeIsRefusedFirst) {
  const auto refusal = [](const std::string& path) {
    try {
      doctor_command().run({"--machine-file", path});
    } catch (const UserError& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_NE(refusal("here").find("--machine-file here: must end in .toml"), std::string::npos);
  EXPECT_NE(refusal("no/such/here.toml").find("there is no folder no/such\n  -> mkdir -p no/such"), std::string::npos);
}

TEST(Doctor, HelpSaysWhatTheExitCodeMeans) {
  testing::internal::CaptureStdout();
  EXPECT_EQ(doctor_command().run({"--help"}), 0);
  EXPECT_NE(testing::internal::GetCapturedStdout().find("UNFIT"), std::string::npos);
}

}  // namespace
}  // namespace lockstep::app
