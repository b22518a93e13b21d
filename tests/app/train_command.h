#pragma once

// The commands as a user types them, and a small text to train on.

#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "app/cli/commands.h"
#include "base/json.h"
#include "io/file.h"
#include "support/patience.h"
#include "support/temp_folder.h"

namespace lockstep::app {

struct Outcome {
  int code = 0;
  std::string out, err;
};

inline Outcome lockstep(std::vector<std::string> words) {
  const std::vector<Command> commands = {prepare_command(), train_command(), generate_command(), eval_command(),
                                         convert_command(), bench_command(), report_command(),   sweep_command()};
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  Outcome outcome;
  outcome.code = run_program(commands, words);
  std::fflush(stdout);
  outcome.out = testing::internal::GetCapturedStdout();
  outcome.err = testing::internal::GetCapturedStderr();
  return outcome;
}

/// What happens to a command while it runs: `event`, once `begun` has come true, unless this is gone before. A signal must not
/// come to a command that has ended.
class Meanwhile {
 public:
  Meanwhile(std::function<bool()> begun, std::function<void()> event)
      : thread_([begun = std::move(begun), event = std::move(event)](const std::stop_token& stop) {
          const auto over = [&] { return stop.stop_requested(); };
          EXPECT_TRUE(support::comes_true([&] { return over() || begun(); }));
          if (!over()) event();
        }) {}

 private:
  std::jthread thread_;
};

/// A folder with prepared text and the words that train a tiny model on it.
class TrainCommand : public testing::Test {
 protected:
  void SetUp() override {
    std::string text;
    for (int i = 0; i < 400; ++i) text += "the quick brown fox " + std::to_string(i * i % 97) + " jumps over the lazy dog.\n";
    io::replace_file(folder_ / "text.txt", text);
    ASSERT_EQ(lockstep({"prepare", folder_ / "text.txt", "--tokenizer", "char", "--out", folder_ / "data"}).code, 0);
  }
  std::vector<std::string> words(const std::string& run, std::vector<std::string> more = {}) const {
    std::vector<std::string> all = {"train",
                                    "data.dir=" + (folder_ / "data").string(),
                                    "log.dir=" + (folder_ / run).string(),
                                    "model.n_layer=2",
                                    "model.n_head=2",
                                    "model.n_embd=16",
                                    "model.block_size=12",
                                    "model.batch_size=4",
                                    "train.max_iters=8",
                                    "train.eval_interval=4",
                                    "train.eval_iters=2",
                                    "train.log_interval=2",
                                    "train.warmup_iters=2",
                                    "sample.tokens=20",
                                    "train.threads=2"};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  /// Whether the run has logged a step.
  bool has_logged(const std::string& run) const {
    const std::string metrics = run + "/metrics.jsonl";
    return std::filesystem::exists(folder_ / metrics) && file(metrics).find("\"loss\"") != std::string::npos;
  }
  std::string file(const std::string& path) const { return io::read_file(folder_ / path); }
  /// Lines of the run's metrics: those of steps, or of evaluations.
  std::vector<Json> lines(const std::string& run, bool evaluations = false) const {
    std::vector<Json> found;
    std::istringstream metrics(file(run + "/metrics.jsonl"));
    for (std::string text; std::getline(metrics, text);) {
      Json line = Json::parse(text);
      if ((line.find("eval") != nullptr) == evaluations) found.push_back(std::move(line));
    }
    return found;
  }
  std::vector<double> losses(const std::string& run) const {
    std::vector<double> values;
    for (const Json& line : lines(run)) values.push_back(line.at("loss").number());
    return values;
  }
  /// Steps behind which the run was evaluated.
  std::vector<std::int64_t> evaluated(const std::string& run) const {
    std::vector<std::int64_t> steps;
    for (const Json& line : lines(run, true)) steps.push_back(line.at("step").integer());
    return steps;
  }
  TempFolder folder_;
};

}  // namespace lockstep::app
