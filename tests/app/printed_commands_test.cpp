// Commands that the program prints, pasted into a shell as they are.

#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <filesystem>
#include <string>
#include <string_view>

#include "app/program.h"
#include "base/shell.h"

namespace lockstep::app {
namespace {

class PrintedCommands : public testing::Test {
 protected:
  void SetUp() override {
    std::string text;
    for (int i = 0; i < 400; ++i)
      text += "it's the quick brown fox " + std::to_string(i * i % 97) + " jumps over the lazy dog.\n";
    io::replace_file(folder_ / "my book.txt", text);
  }
  /// What a shell in the folder prints, both streams.
  std::string shell(const std::string& command) const {
    const std::string line = "cd " + shell_words({folder_.path().string()}) + " && { " + command + "; } 2>&1; echo =$?";
    std::FILE* pipe = popen(line.c_str(), "r");
    std::string text;
    std::array<char, 4096> block{};
    while (const std::size_t count = std::fread(block.data(), 1, block.size(), pipe)) text.append(block.data(), count);
    pclose(pipe);
    EXPECT_TRUE(text.ends_with("=0\n")) << command << "\n" << text;
    return text;
  }
  std::string lockstep(const std::string& words) const { return shell(shell_words({program()}) + " " + words); }
  static std::string behind(const std::string& text, std::string_view mark) {
    const std::size_t at = text.find(mark);
    EXPECT_NE(at, std::string::npos) << mark << " in:\n" << text;
    if (at == std::string::npos) return "false";
    const std::size_t begin = at + mark.size();
    return text.substr(begin, text.find('\n', begin) - begin);
  }
  TempFolder folder_;
};

constexpr const char* tiny =
    "model.n_layer=2 model.n_head=2 model.n_embd=16 model.block_size=12 model.batch_size=4 train.max_iters=4 train.eval_iters=1 "
    "train.warmup_iters=1 sample.tokens=8 ";

TEST_F(PrintedCommands, OfPrepareTrainGenerateAndReport) {
  const std::string prepared = lockstep("prepare 'my book.txt' --out 'data/my book'");
  EXPECT_TRUE(shell(behind(prepared, "next: ") + " --dry-run").find("Chosen for ") != std::string::npos);
  const std::string trained = lockstep("train 'data/my book' log.dir='a run' sample.prompt=\"it's\" " + std::string(tiny));
  EXPECT_TRUE(shell(behind(trained, "Try next:    ")).starts_with("it's"));
  EXPECT_TRUE(shell(behind(trained.substr(trained.rfind(" --prompt ")), "\n             ")).find("loss") != std::string::npos);
}

TEST_F(PrintedCommands, OfARunThatWasStopped) {
  lockstep("prepare 'my book.txt' --out data");
  const std::string stopped = lockstep("train data log.dir='a run' train.max_minutes=1e-9 " + std::string(tiny));
  EXPECT_TRUE(stopped.find("The same command begins anew") != std::string::npos) << stopped;
  lockstep("train data log.dir='a run' " + std::string(tiny));
  const std::string later =
      lockstep("train train.init_from=resume log.dir='a run' train.max_iters=1000000 train.max_minutes=0.005");
  shell(behind(later, "Go on with:\n             ") + " train.max_iters=1 train.max_minutes=null train.warmup_iters=1");
}

TEST_F(PrintedCommands, OfConvert) {
  lockstep("prepare 'my book.txt' --out data");
  lockstep("train data log.dir='a run' " + std::string(tiny));
  lockstep("convert 'a run' 'a model'");
  const std::string converted = lockstep("convert 'a model' 'a checkpoint'");
  const std::string next = behind(converted, "next: ");
  shell(next.substr(0, next.find(", or ")) + " --prompt the --tokens 4");
}

}  // namespace
}  // namespace lockstep::app
