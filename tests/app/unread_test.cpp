// Output whose reader is gone, or that cannot be written: the program as a process of its own.

#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <filesystem>
#include <sstream>

#include "app/program.h"
#include "app/train_command.h"

namespace lockstep::app {
namespace {

/// The writing end of a pipe whose reader has gone, or of a device that is full.
class Output {
 public:
  static Output closed_pipe() {
    std::array<int, 2> ends{};
    EXPECT_EQ(pipe2(ends.data(), O_CLOEXEC), 0);
    close(ends[0]);
    return Output(ends[1]);
  }
  static Output full_device() { return Output(open("/dev/full", O_WRONLY | O_CLOEXEC)); }
  ~Output() { close(descriptor_); }
  Output(const Output&) = delete;
  Output& operator=(const Output&) = delete;
  int descriptor() const { return descriptor_; }

 private:
  explicit Output(int descriptor) : descriptor_(descriptor) {}
  int descriptor_;
};

class Unread : public TrainCommand {
 protected:
  void expect_whole(const std::string& run) const {
    EXPECT_TRUE(std::filesystem::exists(folder_ / run / "checkpoints/step_8/manifest.json")) << run;
    EXPECT_EQ(losses(run).size(), 4U);
  }
};

TEST_F(Unread, ATrainingGoesOn) {
  for (const std::string ranks : {"1", "2"}) {
    const Ended ended =
        run_into(Output::closed_pipe().descriptor(), words("pipe" + ranks, {"--ranks", ranks, "train.threads=1"}));
    EXPECT_EQ(ended.code, 0) << ended.err;
    expect_whole("pipe" + ranks);
  }
  const Ended full = run_into(Output::full_device().descriptor(), words("full"));
  EXPECT_EQ(full.code, 0) << full.err;
  expect_whole("full");
}

TEST_F(Unread, ALaunchedTrainingGoesOn) {
  for (const std::string timeout : {"0", "100"}) {
    std::vector<std::string> launch{"launch", "-n", "1", "--timeout", timeout, "--"};
    const std::vector<std::string> train = words("launched" + timeout);
    launch.insert(launch.end(), train.begin(), train.end());
    setenv("LOCKSTEP_SCHEDULER", "none", 1);
    const Ended ended = run_into(Output::closed_pipe().descriptor(), launch);
    unsetenv("LOCKSTEP_SCHEDULER");
    EXPECT_EQ(ended.code, 0) << ended.err;
    expect_whole("launched" + timeout);
  }
}

TEST_F(Unread, OtherCommandsEndQuietly) {
  ASSERT_EQ(run_into(Output::full_device().descriptor(), words("run")).code, 0);
  const std::string run = (folder_ / "run").string();
  const std::vector<std::vector<std::string>> commands{
      {"help"}, {"help", "config"}, {"inspect", run}, {"generate", "--model", run, "--tokens", "1000000"}};
  for (const std::vector<std::string>& words_of_it : commands) {
    const Ended ended = run_into(Output::closed_pipe().descriptor(), words_of_it);
    EXPECT_EQ(ended.code, 1) << words_of_it[0];
    EXPECT_EQ(ended.err, "") << words_of_it[0];
  }
}

/// Words whose output is what they are for: the help of every command, and what commands tell.
std::vector<std::vector<std::string>> telling_words(const std::string& run, const std::string& data) {
  std::vector<std::vector<std::string>> all{{"help"},
                                            {"--help"},
                                            {"--version"},
                                            {"help", "config"},
                                            {"train", "--dry-run", "data.dir=" + data, "model.n_layer=1", "model.n_embd=12"},
                                            {"launch", "-n", "1", "--dry-run", "--", "train"},
                                            {"generate", "--model", run, "--tokens", "4"},
                                            {"eval", "--model", run},
                                            {"inspect", run},
                                            {"report", run},
                                            {"plan", "draw", "parallel.schedule=1f1b"}};
  testing::internal::CaptureStdout();
  std::system((program() + " help").c_str());
  std::istringstream help(testing::internal::GetCapturedStdout());
  bool in_list = false;
  for (std::string line; std::getline(help, line);) {
    if (line.empty()) in_list = false;
    if (in_list && line.starts_with("  ") && line[2] != ' ') {
      const std::string name = line.substr(2, line.find(' ', 2) - 2);
      if (name != "help") all.push_back({name, "--help"});
    }
    if (line == "commands:") in_list = true;
  }
  return all;
}

TEST_F(Unread, OutputThatCannotBeWrittenIsAnErrorInEveryCommand) {
  ASSERT_EQ(run_into(Output::full_device().descriptor(), words("run")).code, 0);
  const auto all = telling_words((folder_ / "run").string(), (folder_ / "data").string());
  EXPECT_GE(all.size(), 25U);
  const Output full = Output::full_device();
  for (const std::vector<std::string>& command : all) {
    for (const int output : {full.descriptor(), -1}) {
      const Ended ended = run_into(output, command);
      EXPECT_EQ(ended.code, 1) << command[0] << " " << output << "\n" << ended.err;
      EXPECT_EQ(ended.err.rfind("lockstep: the output cannot be written", 0), 0U) << command[0] << "\n" << ended.err;
    }
  }
}

// The number of a closed standard output would be given to the first file that is opened.
TEST_F(Unread, AClosedOutputSpoilsNoFile) {
  const Ended ended = run_into(-1, words("closed"));
  EXPECT_EQ(ended.code, 0) << ended.err;
  expect_whole("closed");
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder_ / "closed")) {
    if (!entry.is_regular_file()) continue;
    EXPECT_EQ(io::read_file(entry.path()).find("Tokens per iteration"), std::string::npos) << entry.path();
  }
}

}  // namespace
}  // namespace lockstep::app
