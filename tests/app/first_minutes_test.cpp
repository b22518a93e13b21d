// What a newcomer meets: a run that nothing was said of, and what it says.

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "app/train_command.h"

namespace lockstep::app {
namespace {

using FirstMinutes = TrainCommand;

TEST_F(FirstMinutes, SaysLittleAndKeepsItWithTimeStamps) {
  const Outcome outcome = lockstep(words("a"));
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const std::size_t first = outcome.out.find("step 2: loss ");
  ASSERT_NE(first, std::string::npos) << outcome.out;
  const std::string before = outcome.out.substr(0, first);
  EXPECT_LE(std::ranges::count(before, '\n'), 15) << before;
  EXPECT_EQ(before.find('['), std::string::npos) << before;
  EXPECT_NE(before.find("Training: 8 steps of 48 tokens ("), std::string::npos) << before;
  EXPECT_EQ(outcome.out.find("step 4: loss "), std::string::npos) << "a line a step is too much";
  EXPECT_NE(outcome.out.find("step 8: train loss "), std::string::npos);
  EXPECT_NE(outcome.out.find(" generate " + (folder_ / "a").string() + " --prompt "), std::string::npos) << outcome.out;
  EXPECT_NE(outcome.out.find(" report " + (folder_ / "a").string() + "\n"), std::string::npos) << outcome.out;
  const std::string log = file("a/log.txt");
  EXPECT_NE(log.find("][INFO][plain_lines:"), std::string::npos) << log;
  EXPECT_NE(log.find("] - Lockstep "), std::string::npos) << log;
  EXPECT_NE(log.find(" - step 8: train loss "), std::string::npos) << log;
  ASSERT_EQ(lockstep(words("a", {"train.init_from=resume", "train.max_iters=12"})).code, 0);
  EXPECT_TRUE(file("a/log.txt").starts_with(log)) << "a resume goes on with it";
}

// `train book.txt`, as far as a choice is made.
TEST_F(FirstMinutes, ChoosesModelAndLengthForATextAndRepeatsThem) {
  const std::string text = folder_ / "text.txt", root = "data.root_path=" + (folder_ / "root").string();
  const Outcome dry = lockstep({"train", text, root, "--dry-run", "--minutes", "0.02"});
  ASSERT_EQ(dry.code, 0) << dry.err;
  EXPECT_NE(dry.out.find("Chosen for "), std::string::npos) << dry.out;
  EXPECT_FALSE(io::exists(folder_ / "root"));
  const std::string run = folder_ / "chosen";
  const Outcome outcome = lockstep({"train", text, root, "--minutes", "0.002", "log.dir=" + run, "sample.tokens=8"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const std::string recipe = file("chosen/config.toml");
  for (const char* line : {"n_layer = 4\n", "n_embd = 64\n", "max_iters = 100\n", "eval_interval = 13\n"})
    EXPECT_NE(recipe.find(line), std::string::npos) << line << recipe;
  EXPECT_EQ(recipe.find("null"), std::string::npos) << recipe;
  // The recipe alone repeats it, and needs the text no more.
  std::filesystem::remove(text);
  const Outcome again = lockstep({"train", "--config", run + "/config.toml", "log.dir=" + (folder_ / "again").string()});
  ASSERT_EQ(again.code, 0) << again.err;
  EXPECT_EQ(again.out.find("Chosen for"), std::string::npos);
  EXPECT_EQ(losses("again"), losses("chosen"));
  ASSERT_EQ(lockstep({"train", "log.dir=" + run, "train.init_from=resume", "train.max_iters=101"}).code, 0);
}

TEST_F(FirstMinutes, ATextWithoutTheLettersOfThePromptHasSamplesToo) {
  std::string text;
  for (int i = 0; i < 400; ++i) text += i % 3 == 0 ? "國破山河在\n" : "城春草木深\n";
  io::replace_file(folder_ / "poem.txt", text);
  ASSERT_EQ(lockstep({"prepare", folder_ / "poem.txt", "--out", folder_ / "poem"}).code, 0);
  std::vector<std::string> run = words("a");
  run[1] = "data.dir=" + (folder_ / "poem").string();
  const Outcome outcome = lockstep(run);
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_NE(outcome.out.find("so samples begin with a line feed"), std::string::npos) << outcome.out;
  EXPECT_NE(outcome.out.find("A sample:"), std::string::npos) << outcome.out;
  EXPECT_NE(outcome.out.find(" generate " + (folder_ / "a").string() + "\n"), std::string::npos) << outcome.out;
}

TEST_F(FirstMinutes, MinutesGoWithAChoiceAlone) {
  const Outcome said = lockstep(words("a", {"--minutes", "5"}));
  EXPECT_EQ(said.code, 2);
  EXPECT_NE(said.err.find("--minutes 5: model and length are chosen only where no recipe"), std::string::npos) << said.err;
  EXPECT_NE(said.err.find("train.max_minutes=5"), std::string::npos) << said.err;
  for (const char* wrong : {"0", "-1", "1e9"}) {
    const Outcome refused = lockstep({"train", folder_ / "data", "--minutes", wrong});
    EXPECT_EQ(refused.code, 2) << wrong;
    EXPECT_NE(refused.err.find("must be above 0"), std::string::npos) << refused.err;
  }
}

}  // namespace
}  // namespace lockstep::app
