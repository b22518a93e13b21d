// `lockstep drill`: what its words mean, what is refused, and faults that ranks play on copies of a run.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <map>

#include "app/drill/drill_faults.h"
#include "app/mpi_command.h"

namespace lockstep::app {
namespace {

const DrillGround ground{
    .trainers = 4, .steps = 30, .tensors = {"wte", "blocks.0.mlp"}, .hosts = {"north", "south"}, .ranks_per_host = 2};

std::vector<std::string> messages_of(const std::vector<Problem>& problems) {
  std::vector<std::string> all;
  for (const Problem& problem : problems) all.push_back(problem.message + " -> " + problem.remedy);
  return all;
}

bool holds(const std::vector<std::string>& texts, const std::string& part) {
  return std::ranges::any_of(texts, [&](const std::string& text) { return text.find(part) != std::string::npos; });
}

std::vector<train::DrillFault> placed(const FaultWords& words, std::vector<Problem>& problems) {
  std::vector<train::DrillFault> faults = read_faults(words, problems);
  if (problems.empty()) place_faults(faults, ground, problems);
  return faults;
}

TEST(DrillFaults, HaveRanksAndSteps) {
  std::vector<Problem> problems;
  const auto faults = placed(
      {.kill = {"1@7"}, .stop = {"2"}, .slow = {"3x1.5@9"}, .flip = {"wte"}, .cut = {"south@4"}, .full_disk = 0}, problems);
  EXPECT_TRUE(problems.empty()) << problems.front().message;
  std::vector<std::string> options;
  for (const train::DrillFault& fault : faults)
    options.push_back(fmt::format("{} {}-{}", option_of(fault), fault.first, fault.last));
  EXPECT_EQ(options, (std::vector<std::string>{"--kill 1@7 1-1", "--stop 2@15 2-2", "--slow 3x1.5@9 3-3", "--flip wte@15 0-3",
                                               "--cut south@4 2-3", "--full-disk=15 0-3"}));
}

TEST(DrillFaults, WrongWordsAreToldAtOnce) {
  std::vector<Problem> problems;
  placed({.kill = {"one", "1@0", "-1"}, .stop = {"1@x"}, .slow = {"1", "1x1", "1x1000", "x2"}}, problems);
  const std::vector<std::string> said = messages_of(problems);
  EXPECT_EQ(said.size(), 8U);
  for (const char* part : {"--kill one: a rank's number", "--kill 1@0: behind @", "--kill -1: a rank's", "--stop 1@x: behind @",
                           "--slow 1: behind x", "--slow 1x1: behind x", "--slow 1x1000: behind x", "--slow x2: a rank's",
                           "-> --kill 1@15", "-> --stop 1@15"})
    EXPECT_TRUE(holds(said, part)) << part;
}

TEST(DrillFaults, WhatCannotBePlayedIsNamed) {
  std::vector<Problem> problems;
  placed({.kill = {"4", "1@30"}, .flip = {"wpe"}, .nan = {"blocks.0.mpl"}, .cut = {"east"}}, problems);
  const std::vector<std::string> said = messages_of(problems);
  EXPECT_EQ(said.size(), 5U);
  for (const char* part :
       {"--kill 4@15: the ranks that train are 0 to 3", "--kill 1@30: the copy has 30 steps",
        "--flip wpe@15: the model has no such tensor -> ", "-> blocks.0.mlp; ", "--cut east@15: the job has no"})
    EXPECT_TRUE(holds(said, part)) << part;
  DrillGround alone = ground;
  alone.hosts = {"north"};
  alone.tensors.clear();
  problems.clear();
  std::vector<train::DrillFault> faults = read_faults({.flip = {"wte"}, .cut = {"north"}}, problems);
  place_faults(faults, alone, problems);
  EXPECT_TRUE(holds(messages_of(problems), "--cut north@15: cannot be played here"));
  EXPECT_TRUE(holds(messages_of(problems), "--flip wte@15: cannot be played here"));
}

TEST(DrillFaults, AreDrawnAgainByTheirSeedAndByTheirWords) {
  std::map<std::string, int> kinds;
  const std::vector<train::DrillFault> drawn = drawn_faults(200, 7, ground), again = drawn_faults(200, 7, ground);
  for (std::size_t i = 0; i < drawn.size(); ++i) {
    const std::string option = option_of(drawn[i]);
    EXPECT_EQ(option, option_of(again[i]));
    const std::size_t blank = option.find_first_of(" =");
    const std::string name = option.substr(2, blank - 2), word = option.substr(blank + 1);
    ++kinds[name];
    FaultWords words;
    if (name == "full-disk") words.full_disk = std::stoll(word);
    for (const auto& [known, list] : {std::pair<std::string, std::vector<std::string>*>{"kill", &words.kill},
                                      {"stop", &words.stop},
                                      {"slow", &words.slow},
                                      {"flip", &words.flip},
                                      {"nan", &words.nan}}) {
      if (name == known) list->push_back(word);
    }
    std::vector<Problem> problems;
    const auto read = placed(words, problems);
    ASSERT_TRUE(problems.empty()) << option << ": " << problems.front().message;
    EXPECT_EQ(option_of(read.at(0)), option);
  }
  EXPECT_EQ(kinds.size(), 6U);
  EXPECT_NE(option_of(drawn_faults(1, 8, ground).at(0)), option_of(drawn.at(0)));
}

class DrillCommand : public MpiCommand {
 protected:
  struct Said {
    int code;
    std::string text;
  };
  /// The program itself, for a copy is a process of it.
  Said drill(std::vector<std::string> words) const {
    words.insert(words.begin(), "drill");
    const std::string out = (folder_ / "drill.out").string();
    const int status =
        std::system(("LOCKSTEP_SCHEDULER=none timeout -k 5 300 " + text_of(words) + " >" + out + " 2>&1 </dev/null").c_str());
    return {WEXITSTATUS(status), io::read_file(out)};
  }
  std::string trained(const std::string& ranks) const {
    std::vector<std::string> words = on_two("run");
    words.insert(words.end(), {"--ranks", ranks});
    EXPECT_EQ(lockstep(words).code, 0);
    return (folder_ / "run").string();
  }
};

TEST_F(DrillCommand, RanksAreKilledAndWeightsChanged) {
  const std::string run = trained("2");
  const auto before = std::filesystem::last_write_time(run);
  const Said said = drill({run, "--kill", "1", "--flip", "transformer.wte.weight", "--nan", "transformer.wte.weight",
                           "train.max_skipped=3", "comm.timeout=60", "checkpoint.async=false", "--json"});
  EXPECT_EQ(said.code, 1) << said.text;
  const Json answer = Json::parse(said.text.substr(said.text.rfind("{\"ranks\"")));
  const Json::Array& faults = answer.at("faults").array();
  ASSERT_EQ(faults.size(), 3U);
  EXPECT_EQ(faults[0].at("verdict").string(), "survived") << said.text;
  EXPECT_EQ(faults[0].at("repeated_steps").integer(), 2);
  EXPECT_NE(faults[0].at("said").string().find("rank 1 "), std::string::npos) << said.text;
  EXPECT_TRUE(faults[0].at("found_seconds").is_number() && faults[0].at("goes_on_seconds").is_number());
  EXPECT_EQ(faults[1].at("verdict").string(), "WRONG BITS") << said.text;
  EXPECT_EQ(faults[2].at("verdict").string(), "safe end") << said.text;
  EXPECT_EQ(faults[2].at("exit_code").integer(), kDiverged);
  EXPECT_EQ(faults[2].at("saved_step").integer(), 12);
  EXPECT_EQ(std::filesystem::last_write_time(run), before) << "the run is read only";
}

TEST_F(DrillCommand, AFlippedBitIsFoundBeforeItIsSavedWhereStepsAreAudited) {
  const std::string run = trained("2");
  const Said said = drill({run, "--flip", "transformer.wte.weight", "train.audit=1000", "comm.timeout=60"});
  EXPECT_EQ(said.code, 0) << said.text;
  for (const char* part : {"step 18: the weights of", "\n1 survived\n"})
    EXPECT_NE(said.text.find(part), std::string::npos) << part << said.text;
}

TEST_F(DrillCommand, AFullDiskEndsOneRankSafely) {
  const std::string run = trained("1"), copies = (folder_ / "copies").string();
  const Said said =
      drill({run + "/checkpoints/step_8", "--full-disk", "--dir", copies, "comm.timeout=60", "checkpoint.async=false"});
  EXPECT_EQ(said.code, 0) << said.text;
  for (const char* part : {"The copy: 1 rank, 30 steps", "--full-disk=15 ", "  -      safe end", "File too large",
                           "that of step 12", "\n1 safe end\n"})
    EXPECT_NE(said.text.find(part), std::string::npos) << part << said.text;
  EXPECT_TRUE(std::filesystem::exists(copies + "/undisturbed.log") &&
              std::filesystem::exists(copies + "/1-full-disk/config.toml"));
  const Said again = drill({run, "--kill", "3", "--slow", "0", "--dir", copies, "train.max_iters=no"});
  EXPECT_EQ(again.code, 2) << again.text;
  for (const char* part : {"--slow 0: behind x", "copies: something is there", "train.max_iters"})
    EXPECT_NE(again.text.find(part), std::string::npos) << part << again.text;
  const Said nothing = drill({folder_.path().string()});
  EXPECT_EQ(nothing.code, 2) << nothing.text;
  for (const char* part : {"no fault is named", "no run's folder"}) EXPECT_NE(nothing.text.find(part), std::string::npos) << part;
}

TEST_F(DrillCommand, ATrainingKnowsOnlyWordsOfADrill) {
  setenv("LOCKSTEP_DRILL", "{\"kind\":\"flood\"}", 1);
  const Outcome outcome = lockstep(words("run"));
  unsetenv("LOCKSTEP_DRILL");
  EXPECT_EQ(outcome.code, 2);
  EXPECT_NE(outcome.err.find("LOCKSTEP_DRILL = {\"kind\":\"flood\"}: lockstep drill did not write it"), std::string::npos)
      << outcome.err;
}

}  // namespace
}  // namespace lockstep::app
