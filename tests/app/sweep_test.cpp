// Sweeps: which runs they are made of, what their figures say, and how they go on, as a user types them.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "app/settings/config_file.h"
#include "app/sweep/sweep_definition.h"
#include "app/sweep/sweep_results.h"
#include "app/train_command.h"

namespace lockstep::app {
namespace {

Outcome sweep(std::vector<std::string> words) {
  words.insert(words.begin(), "sweep");
  return lockstep(std::move(words));
}

SweepRun run(std::size_t point, std::int64_t repeat, double rate, double step_tokens, std::vector<double> losses) {
  return {point, repeat, rate, 50, 1e9, step_tokens, 1000, std::move(losses)};
}

TEST(SweepRanking, IsByMediansAndKnowsTheNoise) {
  SweepResults results;
  results.points = {"a", "b", "c"};
  for (const double rate : {90.0, 100.0, 110.0}) results.runs.push_back(run(0, std::ssize(results.runs), rate, 10, {3, 2, 1}));
  for (const double rate : {95.0, 105.0, 200.0}) results.runs.push_back(run(1, std::ssize(results.runs), rate, 10, {3, 2, 1}));
  for (const double rate : {50.0, 60.0, 70.0}) results.runs.push_back(run(2, std::ssize(results.runs), rate, 10, {3, 2, 1}));
  const std::vector<SweepRow> rows = ranking(results);
  ASSERT_EQ(rows.size(), 3U);
  EXPECT_EQ(rows[0].point, 1U);
  EXPECT_EQ(rows[0].median, 105);
  EXPECT_EQ(rows[1].point, 0U);
  EXPECT_TRUE(rows[1].noisy);
  EXPECT_FALSE(rows[2].noisy);
  const std::string text = to_text(results);
  EXPECT_NE(text.find("within the noise of the fastest"), std::string::npos) << text;
  EXPECT_NE(text.find("42.9 % slower"), std::string::npos) << text;
  results.runs.resize(4);
  EXPECT_NE(to_text(results).find("noise unknown"), std::string::npos);
}

TEST(SweepRanking, ComparesLossesAtEqualTokens) {
  SweepResults results;
  results.points = {"small", "large", "diverged"};
  results.runs = {run(0, 0, 1, 10, {9, 8, 7, 6}), run(1, 0, 2, 20, {5, 4, 3, 2}), run(2, 0, 3, 20, {5, std::nan(""), 3, 2})};
  EXPECT_EQ(equal_tokens(results), 40);
  const std::vector<SweepRow> rows = ranking(results);
  EXPECT_FALSE(rows[0].loss);
  EXPECT_EQ(rows[1].loss, 4);
  EXPECT_EQ(rows[2].loss, 6);
}

TEST(SweepRanking, StepsWithoutTargetsAreNoLosses) {
  SweepResults results;
  results.points = {"some", "early", "none"};
  std::vector<double> losses(40, 0.0);
  for (std::size_t step = 0; step < losses.size(); step += 4) losses[step] = 100 - static_cast<double>(step);
  results.runs = {run(0, 0, 3, 10, losses), run(1, 0, 2, 10, losses), run(2, 0, 1, 10, std::vector<double>(40, 0.0))};
  results.runs[0].losses[39] = 62;
  results.runs[1].losses[36] = 0;
  const std::vector<SweepRow> rows = ranking(results);
  EXPECT_EQ(rows[0].loss, (62 + 64) / 2.0);
  EXPECT_EQ(rows[1].loss, 68);
  EXPECT_FALSE(rows[2].loss);
}

TEST(SweepRanking, WhatDivergedComesLastAndCutsNothing) {
  SweepResults results;
  results.points = {"fast", "slow"};
  results.runs = {run(0, 0, 9, 10, {9}), run(1, 0, 1, 10, {8, 7})};
  results.runs[0].diverged = true;
  EXPECT_EQ(equal_tokens(results), 20);
  const std::vector<SweepRow> rows = ranking(results);
  EXPECT_EQ(rows[0].point, 1U);
  EXPECT_EQ(rows[0].loss, 7);
  EXPECT_TRUE(rows[1].diverged);
  EXPECT_FALSE(rows[1].loss);
  EXPECT_NE(to_text(results).find("  diverged\n"), std::string::npos);
  results.runs.pop_back();
  EXPECT_EQ(equal_tokens(results), 0);
  EXPECT_EQ(ranking(results).size(), 1U);
}

class SweepCommand : public TrainCommand {
 protected:
  std::vector<std::string> swept(std::vector<std::string> more) const {
    std::vector<std::string> all{"data.dir=" + (folder_ / "data").string(),
                                 "model.n_layer=1",
                                 "model.n_head=1",
                                 "model.n_embd=8",
                                 "model.block_size=8",
                                 "train.threads=1"};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  std::string out() const { return (folder_ / "sweep").string(); }
};

TEST_F(SweepCommand, MeasuresInTurnsAndGoesOnWhereItStopped) {
  const std::vector<std::string> words = swept({"model.batch_size=2,4", "--steps", "3", "--repeats", "2", "--out", out()});
  const Outcome first = sweep(words);
  ASSERT_EQ(first.code, 0) << first.err;
  const std::size_t second_point = first.out.find("repeat 1 of 2: model.batch_size=4"), turn = first.out.find("repeat 2 of 2");
  EXPECT_LT(second_point, turn);
  EXPECT_NE(turn, std::string::npos) << first.out;
  const Json json = Json::parse(file("sweep/sweep.json"));
  ASSERT_EQ(json.at("runs").array().size(), 4U);
  EXPECT_EQ(json.at("equal_tokens").number(), 3 * 4 * 8);
  EXPECT_EQ(json.at("runs").array()[0].at("losses").array().size(), 6U);
  EXPECT_EQ(json.at("runs").array()[1].at("losses").array().size(), 3U);
  EXPECT_EQ(std::ranges::count(file("sweep/sweep.csv"), '\n'), 3);
  EXPECT_FALSE(std::filesystem::exists(folder_ / "sweep/runs/1-1/checkpoints"));

  SweepResults cut = *load_sweep(out());
  EXPECT_EQ(cut.runs[0].losses, cut.runs[2].losses) << "repeats learn the same";
  const double rate = cut.runs[0].tokens_per_second;
  cut.runs.resize(1);
  save(cut, out());
  const Outcome resumed = sweep(words);
  ASSERT_EQ(resumed.code, 0) << resumed.err;
  EXPECT_NE(resumed.out.find("goes on: 1 of 4 runs are there"), std::string::npos) << resumed.out;
  EXPECT_EQ(load_sweep(out())->runs.size(), 4U);
  EXPECT_EQ(load_sweep(out())->runs[0].tokens_per_second, rate);

  const Outcome other = sweep(swept({"model.batch_size=2,6", "--steps", "3", "--repeats", "2", "--out", out()}));
  EXPECT_EQ(other.code, 2);
  EXPECT_NE(other.err.find("has another sweep: model.batch_size = 4 then, 6 now"), std::string::npos) << other.err;
  const Outcome longer = sweep(swept({"model.batch_size=2,4,6", "--steps", "4", "--repeats", "2", "--out", out()}));
  EXPECT_NE(longer.err.find("2 combinations then, 3 now; steps 3 then, 4 now"), std::string::npos) << longer.err;
}

TEST_F(SweepCommand, DoesNotMixTexts) {
  const auto words = [&](const char* repeats) {
    return swept({"model.batch_size=2,4", "--steps", "2", "--out", out(), "--repeats", repeats});
  };
  ASSERT_EQ(sweep(words("1")).code, 0);
  const std::string before = file("sweep/sweep.json");
  io::replace_file(folder_ / "text.txt", file("text.txt") + "more of it");
  ASSERT_EQ(lockstep({"prepare", folder_ / "text.txt", "--tokenizer", "char", "--out", folder_ / "data"}).code, 0);
  const Outcome mixed = sweep(words("2"));
  EXPECT_EQ(mixed.code, 2);
  EXPECT_NE(mixed.err.find("/data holds another text now"), std::string::npos) << mixed.err;
  EXPECT_NE(mixed.err.find("another --out"), std::string::npos) << mixed.err;
  EXPECT_EQ(file("sweep/sweep.json"), before);
  Json older = Json::parse(before);
  Json::Object kept;
  for (const auto& [name, value] : older.at("definition").object()) {
    if (name != "texts") kept.emplace_back(name, value);
  }
  io::replace_file(folder_ / "sweep/sweep.json", older.set("definition", Json(std::move(kept))).dump());
  const Outcome unknown = sweep(words("2"));
  EXPECT_EQ(unknown.code, 2);
  EXPECT_NE(unknown.err.find("/data held then was not kept"), std::string::npos) << unknown.err;
}

// By its rows, not by its name.
TEST_F(SweepCommand, DoesNotMixTablesOfASchedule) {
  const std::string table = (folder_ / "table.csv").string();
  io::replace_file(table, "F0,B0\n");
  const auto definition = [&] {
    SweepPoint point;
    point.config.parallel.schedule = "file:" + table;
    return definition_of(3, {point});
  };
  const Json then = definition();
  EXPECT_TRUE(differences(then, definition()).empty());
  io::replace_file(table, "F0,F1,B0,B1\n");
  EXPECT_EQ(differences(then, definition()), (std::vector<std::string>{table + " holds another table now"}));
}

TEST_F(SweepCommand, ADivergedPointIsNotTheFastest) {
  const Outcome outcome = sweep(swept({"optimizer.learning_rate=1e-3,1e6", "optimizer.weight_decay=1e3", "optimizer.grad_clip=0",
                                       "train.warmup_iters=0", "--steps", "30", "--repeats", "1", "--out", out()}));
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const Json json = Json::parse(file("sweep/sweep.json"));
  const Json& last = json.at("ranking").array().back();
  EXPECT_EQ(last.at("point").string(), "optimizer.learning_rate=1e6");
  EXPECT_TRUE(last.at("diverged").boolean());
  EXPECT_EQ(json.at("runs").array()[0].at("losses").array().size(), 30U);
  EXPECT_NE(outcome.out.find("tokens/s, diverged\n"), std::string::npos) << outcome.out;
}

TEST_F(SweepCommand, ASeedThatWasDrawnIsTheSweepsAndGoesOnWithIt) {
  const std::vector<std::string> words =
      swept({"train.seed=random", "model.batch_size=2,4", "--steps", "2", "--repeats", "1", "--out", out()});
  ASSERT_EQ(sweep(words).code, 0);
  SweepResults cut = *load_sweep(out());
  const std::int64_t seed = cut.definition.at("drawn_seed").integer();
  for (const Json& point : cut.definition.at("points").array())
    EXPECT_EQ(point.at("settings").at("train").at("seed").integer(), seed);
  const std::vector<double> losses = cut.runs[1].losses;
  cut.runs.resize(1);
  save(cut, out());
  const Outcome resumed = sweep(words);
  ASSERT_EQ(resumed.code, 0) << resumed.err;
  EXPECT_NE(resumed.out.find("goes on: 1 of 2 runs are there"), std::string::npos) << resumed.out;
  EXPECT_EQ(load_sweep(out())->runs[1].losses, losses);
  EXPECT_EQ(load_sweep(out())->definition.at("drawn_seed").integer(), seed);

  std::vector<std::string> fixed = words;
  fixed[6] = "train.seed=" + std::to_string(seed);
  const Outcome other = sweep(fixed);
  EXPECT_EQ(other.code, 2);
  EXPECT_NE(other.err.find("has another sweep"), std::string::npos) << other.err;
}

TEST_F(SweepCommand, OverRanksItMeasuresTheirExchangeFirst) {
  const Outcome done = sweep(swept({"ranks=1,2", "model.batch_size=2", "--steps", "2", "--repeats", "1", "--out", out()}));
  ASSERT_EQ(done.code, 0) << done.err;
  EXPECT_LT(done.out.find("all_reduce of 1.00 MiB on 2 ranks"), done.out.find("repeat 1 of 1")) << done.out;
  const SweepResults results = *load_sweep(out());
  ASSERT_EQ(results.all_reduce.size(), 1U);
  EXPECT_GT(results.all_reduce[0].median, 0);
  EXPECT_LE(results.all_reduce[0].least, results.all_reduce[0].greatest);
}

TEST(SweepRanking, AllSharesAreOfTheBestPeak) {
  SweepResults results;
  results.points = {"a", "b"};
  for (const std::size_t point : {0U, 1U}) results.runs.push_back(run(point, 0, 100, 10, {3, 2, 1}));
  results.runs[1].thread_peak = 0.8e9;  // timed while something else ran
  const std::vector<SweepRow> rows = ranking(results);
  EXPECT_EQ(rows[0].mfu, 50);
  EXPECT_EQ(rows[1].mfu, 40);
}

TEST_F(SweepCommand, TellsEverythingThatIsWrongBeforeAnythingRuns) {
  const Outcome refused = sweep(swept({"model.bach_size=2,4", "optimizer.gas=8:2:1", "model.n_head=1:x:2", "model.batch_size=4,4",
                                       "model.dropout=,", "log.dir=here", "--steps", "1", "--repeats", "0"}));
  EXPECT_EQ(refused.code, 2);
  for (const char* text :
       {"unknown setting model.bach_size", "did you mean model.batch_size?", "optimizer.gas=8:2:1: the range is empty",
        "model.n_head=1:x:2: is no range", "names 4 twice", "model.dropout=,: names no value", "log.dir is the sweep's own",
        "--steps 1", "--repeats 0", "--out DIR is missing"})
    EXPECT_NE(refused.err.find(text), std::string::npos) << text << "\n" << refused.err;
  EXPECT_FALSE(std::filesystem::exists(out()));
}

TEST_F(SweepCommand, AValueThatAKeyOrALayoutRefusesIsToldOnceForAllPoints) {
  const Outcome refused = sweep(swept({"model.dropout=0,2", "parallel.pp=1,3", "ranks=1,zwei", "--out", out()}));
  EXPECT_EQ(refused.code, 2);
  EXPECT_NE(refused.err.find("ranks = zwei"), std::string::npos) << refused.err;
  const Outcome twice = sweep(swept({"ranks=1,2", "--ranks", "2", "--out", out()}));
  EXPECT_NE(twice.err.find("--ranks 2 and ranks=... exclude each other"), std::string::npos) << twice.err;
  const Outcome values = sweep(swept({"model.dropout=0,2", "parallel.pp=1,3", "--out", out()}));
  EXPECT_EQ(values.code, 2);
  const std::string text = "model.dropout = 2: must be";
  EXPECT_NE(values.err.find(text), std::string::npos) << values.err;
  EXPECT_EQ(values.err.find(text), values.err.rfind(text)) << values.err;
  const Outcome none = sweep(swept({"parallel.pp=2,3", "--out", out()}));
  EXPECT_EQ(none.code, 2) << "no combination can be";
  EXPECT_NE(none.err.find("parallel.pp = 3"), std::string::npos) << none.err;
  const Outcome no_text = sweep({"data.dir=" + (folder_ / "none").string(), "model.batch_size=2,4", "--out", out()});
  EXPECT_EQ(no_text.code, 2);
  EXPECT_NE(no_text.err.find("/none: there is no such folder"), std::string::npos) << no_text.err;
  const Outcome nothing = sweep(swept({"--out", out()}));
  EXPECT_EQ(nothing.code, 2);
  EXPECT_NE(nothing.err.find("nothing is swept"), std::string::npos) << nothing.err;
  EXPECT_FALSE(std::filesystem::exists(out()));
}

TEST_F(SweepCommand, LayoutsAreRankedTheFastestIsARecipeAndJsonHasAll) {
  const Outcome done = sweep(swept({"--layouts", "dp=2;tp=2;dp=1,model.batch_size=4", "model.batch_size=2", "--json", "--steps",
                                    "2", "optimizer.learning_rate=0.01", "--repeats", "1", "--out", out()}));
  ASSERT_EQ(done.code, 0) << done.err;
  const Json json = Json::parse(done.out);
  EXPECT_EQ(json.at("ranking").array().size(), 2U);
  EXPECT_EQ(json.at("left_out").array().at(0).at("point").string(), "tp=2") << "of one head";
  EXPECT_NE(json.at("left_out").array()[0].at("why").array().at(0).string().find("parallel.tp"), std::string::npos);
  EXPECT_NE(done.err.find("Left out: tp=2: "), std::string::npos) << done.err;
  const std::string winner = json.at("ranking").array()[0].at("point").string(),
                    recipe = (folder_ / "sweep/winner.toml").string();
  EXPECT_NE(done.err.find("train --config " + recipe + " --ranks " + (winner == "dp=2" ? "2" : "1")), std::string::npos)
      << done.err;
  RunConfig config;
  EXPECT_TRUE(read_config_file(recipe, config).empty());
  EXPECT_EQ(config.optimizer.learning_rate, 0.01);
  EXPECT_EQ(config.train.max_iters, RunConfig().train.max_iters) << "short runs are the sweep's own";
  EXPECT_EQ(config.model.batch_size, winner == "dp=2" ? 2 : 4);
}

TEST_F(SweepCommand, MemoryOfEveryPointIsCountedBeforeTheFirstRuns) {
  const Outcome done = sweep(swept({"memory.limit=100KiB,1GiB", "--steps", "2", "--repeats", "1", "--out", out()}));
  ASSERT_EQ(done.code, 0) << done.err;
  EXPECT_LT(done.out.find("Left out: memory.limit=100KiB: memory.limit = 100KiB: the run needs "), done.out.find("repeat 1 of 1"))
      << done.out;
  EXPECT_EQ(load_sweep(out())->runs.size(), 1U);
  const Outcome none = sweep(swept({"memory.limit=100KiB,200KiB", "--steps", "2", "--repeats", "1", "--out", out() + "2"}));
  EXPECT_EQ(none.code, 2);
  EXPECT_NE(none.err.find("memory.limit = 200KiB: the run needs "), std::string::npos) << none.err;
}

TEST_F(SweepCommand, AFileThatIsNoSweepsIsRefused) {
  std::filesystem::create_directory(out());
  io::replace_file(folder_ / "sweep/sweep.json", "{\"points\": []}");
  const Outcome refused = sweep(swept({"model.batch_size=2,4", "--out", out()}));
  EXPECT_EQ(refused.code, 2);
  EXPECT_NE(refused.err.find("definition"), std::string::npos) << refused.err;
}

}  // namespace
}  // namespace lockstep::app
