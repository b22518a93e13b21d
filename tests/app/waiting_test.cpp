// A pipe that nobody writes into, wherever a file may be named: every command says so, and none waits without end.

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <chrono>
#include <filesystem>
#include <string>
#include <vector>

#include "app/program.h"
#include "app/train_command.h"

namespace lockstep::app {
namespace {

namespace fs = std::filesystem;

class Waiting : public TrainCommand {
 protected:
  void SetUp() override {
    TrainCommand::SetUp();
    ASSERT_EQ(::mkfifo(pipe().c_str(), 0600), 0);
    ASSERT_EQ(lockstep(words("run")).code, 0);
  }
  std::string pipe() const { return folder_ / "pipe"; }
  void put_pipe_at(const std::string& name) const {
    const fs::path path = folder_ / name;
    fs::remove(path);
    fs::create_directories(path.parent_path());
    EXPECT_EQ(::mkfifo(path.c_str(), 0600), 0);
  }
};

TEST_F(Waiting, APipeWithoutAWriterIsRefusedInTime) {
  fs::copy(folder_ / "run", folder_ / "metrics", fs::copy_options::recursive);
  fs::copy(folder_ / "run", folder_ / "again", fs::copy_options::recursive);
  fs::copy(folder_ / "data", folder_ / "described", fs::copy_options::recursive);
  put_pipe_at("metrics/metrics.jsonl");
  put_pipe_at("again/metrics.jsonl");
  put_pipe_at("described/tokens.json");
  put_pipe_at("hf/config.json");
  const std::string run = folder_ / "run";
  const std::vector<std::vector<std::string>> commands{
      {"train", "--config", pipe()},
      {"train", pipe() + ".py"},
      words("a", {"train.backend=deepspeed", "train.ds_config_path=" + pipe()}),
      words("again", {"train.init_from=resume", "train.max_iters=9"}),
      words("b", {"data.dir=" + (folder_ / "described").string()}),
      {"generate", "--model", run, "--prompt", "FILE:" + pipe()},
      {"eval", "--model", run, "--tokens", pipe()},
      {"report", folder_ / "metrics"},
      {"inspect", pipe()},
      {"prepare", pipe(), "--out", folder_ / "out"},
      {"prepare", folder_ / "text.txt", "--tokenizer", "hf:" + pipe(), "--out", folder_ / "out"},
      {"convert", folder_ / "hf", folder_ / "new"},
      {"plan", "search", "gpt2", pipe()},
      {"launch", "--hostfile", pipe(), "-n", "2", "--dry-run", "--", "train"},
  };
  ASSERT_EQ(::mkfifo((pipe() + ".py").c_str(), 0600), 0);
  const auto start = std::chrono::steady_clock::now();
  struct Started {
    pid_t child;
    std::string err;
  };
  std::vector<Started> all;
  for (std::size_t i = 0; i < commands.size(); ++i) {
    const std::string err = folder_ / ("err" + std::to_string(i));
    posix_spawn_file_actions_t streams;
    posix_spawn_file_actions_init(&streams);
    posix_spawn_file_actions_addopen(&streams, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&streams, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
    posix_spawn_file_actions_addopen(&streams, STDERR_FILENO, err.c_str(), O_WRONLY | O_CREAT, 0600);
    all.push_back({start_program(commands[i], streams), err});
    posix_spawn_file_actions_destroy(&streams);
  }
  for (std::size_t i = 0; i < all.size(); ++i) {
    const int code = end_of(all[i].child);
    const std::string err = io::read_file(all[i].err);
    EXPECT_EQ(code, 2) << commands[i][0] << " " << commands[i][1] << err;
    EXPECT_TRUE(err.find("pipe") != std::string::npos) << commands[i][0] << " " << commands[i][1] << err;
  }
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::minutes(3));
}

TEST_F(Waiting, APipeWithAWriterIsAConfiguration) {
  const std::string words =
      "exec 9>&1; " + program() +
      " train --dry-run --config <(sleep 1; echo '[train]'; echo max_iters=3) data.dir=" + (folder_ / "data").string() +
      " log.dir=" + (folder_ / "c").string() + " 2>&1";
  std::FILE* said = ::popen(("bash -c \"" + words + "\"").c_str(), "r");
  std::string out(1 << 16, '\0');
  out.resize(std::fread(out.data(), 1, out.size(), said));
  EXPECT_EQ(::pclose(said), 0) << out;
}

}  // namespace
}  // namespace lockstep::app
