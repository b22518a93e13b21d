// Runs side by side: figures, text and errors, as a user types it.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>

#include "app/report/report_page.h"
#include "app/report_command.h"

namespace lockstep::app {
namespace {

TEST_F(ReportCommand, ReadsWhatRunsLogged) {
  const std::vector<RunData> runs = read_runs({run("one"), run("piped")});
  ASSERT_EQ(runs.size(), 2U);
  EXPECT_EQ(runs[0].loss(false).x, (std::vector<double>{2, 4, 6, 8}));
  EXPECT_EQ(runs[0].loss(false).y, losses("one"));
  EXPECT_EQ(runs[0].validation(false).x, (std::vector<double>{0, 4, 8}));
  EXPECT_EQ(runs[0].validation(true).x.back(), 8 * 4 * 12);
  EXPECT_EQ(runs[0].validation(false).y.back(), lines("one", true).back().at("val_loss").number());
  EXPECT_TRUE(compares_by_tokens(runs));
  EXPECT_EQ(runs[0].loss(true).x.back(), 8 * 4 * 12);
  EXPECT_EQ(runs[1].loss(true).x.back(), 8 * 4 * 12 * 2);
  EXPECT_FALSE(runs[0].schedule());
  ASSERT_TRUE(runs[1].schedule());
  EXPECT_EQ(runs[1].schedule()->ranks.size(), 2U);
  const std::array<double, train::kStepParts> account = runs[1].account();
  EXPECT_GT(account[static_cast<std::size_t>(train::StepPart::forward)], 0);
  EXPECT_GT(account[static_cast<std::size_t>(train::StepPart::backward)], 0);
  EXPECT_FALSE(runs[0].exchanged(comm::Purpose::activations)) << "one rank exchanges nothing";
  // A stage sends the stream of each of two micro-batches: 4 samples of 12 tokens of the model's width.
  const std::int64_t stream = 4LL * 12 * runs[1].config.model.n_embd * 4;
  EXPECT_EQ(runs[1].exchanged(comm::Purpose::activations)->sent, 2 * stream);
  EXPECT_EQ(runs[1].hfu(), runs[1].mfu()) << "nothing is computed again";
  EXPECT_GT(*runs[1].tflops_per_rank(), 0);
  const std::vector<SettingRow> rows = setting_rows(runs);
  const auto gas = std::ranges::find(rows, "optimizer.gas", &SettingRow::key);
  ASSERT_NE(gas, rows.end());
  EXPECT_TRUE(gas->differs);
  EXPECT_EQ(gas->values, (std::vector<std::string>{"1", "2"}));
  EXPECT_EQ(std::ranges::find(rows, "log.dir", &SettingRow::key), rows.end());
  const auto layers = std::ranges::find(rows, "model.n_layer", &SettingRow::key);
  ASSERT_NE(layers, rows.end());
  EXPECT_FALSE(layers->differs);
}

TEST_F(ReportCommand, WhatARunAppendsIsRead) {
  const std::string metrics = file("one/metrics.jsonl"), samples = file("one/samples.jsonl");
  EXPECT_EQ(read_runs({run("one")})[0].samples.back().step, 8);
  std::vector<RunData> runs;
  for (const std::size_t part : {30, 65, 65, 100}) {
    std::ofstream(folder_ / "one/metrics.jsonl") << metrics.substr(0, metrics.size() * part / 100);
    std::ofstream(folder_ / "one/samples.jsonl") << samples.substr(0, samples.size() * part / 100);
    EXPECT_TRUE(read_again({run("one"), run("piped")}, runs).empty());
    ASSERT_EQ(runs.size(), 2U);
    EXPECT_EQ(report_page(runs), report_page(read_runs({run("one"), run("piped")}))) << part;
  }
  EXPECT_EQ(runs[0].read.metrics.bytes, metrics.size());
  // Another run takes its place, with as many bytes.
  std::string other = metrics;
  other.replace(other.find("\"step\":2"), 8, "\"step\":1");
  io::replace_file(folder_ / "one/metrics.jsonl", other);
  EXPECT_TRUE(read_again({run("one"), run("piped")}, runs).empty());
  EXPECT_EQ(runs[0].loss(false).x, (std::vector<double>{1, 4, 6, 8}));
  std::filesystem::remove_all(folder_ / "one");
  const std::vector<Problem> problems = read_again({run("one"), run("piped")}, runs);
  ASSERT_EQ(problems.size(), 1U);
  EXPECT_NE(problems[0].message.find("no run's folder"), std::string::npos);
  EXPECT_EQ(runs.size(), 1U);
}

TEST_F(ReportCommand, WhatIsLostToALateRankIsAColumn) {
  EXPECT_EQ(report({run("one")}).out.find("lost to rank"), std::string::npos);
  std::string metrics = file("piped/metrics.jsonl");
  for (std::size_t at = 0; (at = metrics.find("{\"step\":", at)) != std::string::npos; ++at)
    metrics.insert(at + 1, R"("late_rank":1,"lost_seconds":1e-6,)");
  io::replace_file(folder_ / "piped/metrics.jsonl", metrics);
  const Outcome one = report({run("one"), run("piped"), "--json"});
  ASSERT_EQ(one.code, 0) << one.err;
  const RunData piped = read_runs({run("piped")})[0];
  EXPECT_EQ(piped.steps.back().late_rank, 1);
  EXPECT_NEAR(piped.account()[static_cast<std::size_t>(train::StepPart::lost)], 1e-6, 1e-12);
  EXPECT_NE(one.out.find("lost_to_late_ranks_seconds"), std::string::npos) << one.out;
  EXPECT_NE(report({run("piped")}).out.find("lost to rank 1"), std::string::npos);
  EXPECT_NE(report_page({piped}).find("lost to rank 1"), std::string::npos);
  std::ofstream(folder_ / "one/metrics.jsonl", std::ios::app)
      << lines("one").back().dump().insert(1, R"("late_rank":0,"lost_seconds":1,)") + "\n";
  EXPECT_NE(report_page(read_runs({run("one"), run("piped")})).find("lost to late ranks"), std::string::npos);
}

TEST_F(ReportCommand, AResumedRunsStepsStandOnce) {
  const std::string metrics = file("one/metrics.jsonl");
  const std::string again = metrics.substr(metrics.find("{\"step\":6"));
  io::replace_file(folder_ / "one/metrics.jsonl", metrics + again + "{\"step\":10,\"lo");
  EXPECT_EQ(read_runs({run("one")})[0].loss(false).x, (std::vector<double>{2, 4, 6, 8}));
  EXPECT_EQ(read_runs({run("one")})[0].validation(false).x, (std::vector<double>{0, 4, 8}));
  io::replace_file(folder_ / "one/metrics.jsonl", metrics + metrics.substr(metrics.find("{\"step\":4")));
  EXPECT_EQ(read_runs({run("one")})[0].loss(false).x, (std::vector<double>{2, 4, 6, 8}));
  EXPECT_EQ(read_runs({run("one")})[0].validation(false).x, (std::vector<double>{0, 4, 8}));
}

TEST_F(ReportCommand, TheLastEvaluationIsTheOneThatIsShown) {
  ASSERT_EQ(lockstep(words("short", {"train.eval_interval=100"})).code, 0);
  const std::string last = fmt::format("{:.4f}", lines("short", true).back().at("val_loss").number());
  EXPECT_NE(report({run("short")}).out.find(last), std::string::npos) << last;
  ASSERT_EQ(report({run("short"), "--html", run("report.html")}).code, 0);
  EXPECT_NE(file("report.html").find("<div>" + last + "</div>"), std::string::npos) << last;
}

// Before, lines of steps had the loss of the last evaluation, and evaluations had none.
TEST_F(ReportCommand, EvaluationsOfOlderVersionsAreRead) {
  std::string older;
  double validation = 0;
  std::istringstream metrics(file("one/metrics.jsonl"));
  for (std::string text; std::getline(metrics, text);) {
    Json line = Json::parse(text);
    if (line.find("eval") != nullptr) {
      validation = line.at("val_loss").number();
    } else {
      older += line.set("train_loss", Json()).set("val_loss", validation).dump() + "\n";
    }
  }
  const double first = lines("one", true).front().at("val_loss").number();
  io::replace_file(folder_ / "one/metrics.jsonl", older);
  const RunData run_data = read_runs({run("one")})[0];
  EXPECT_EQ(run_data.validation(false).x, (std::vector<double>{0, 4}));
  EXPECT_EQ(run_data.validation(false).y.front(), first);
  EXPECT_EQ(report({run("one")}).code, 0);
}

TEST_F(ReportCommand, ALossThatIsNotFiniteIsNoError) {
  std::string metrics = file("one/metrics.jsonl");
  const std::size_t at = metrics.rfind("\"loss\":") + 7;
  io::replace_file(folder_ / "one/metrics.jsonl", metrics.replace(at, metrics.find(',', at) - at, "null"));
  EXPECT_TRUE(std::isnan(read_runs({run("one")})[0].steps.back().loss));
  EXPECT_EQ(report({run("one")}).code, 0);
  EXPECT_EQ(report({run("one"), "--html", run("report.html")}).code, 0);
  EXPECT_EQ(file("report.html").find("nan,"), std::string::npos);
}

// With steps of 1 s and 3 s the median rate is 2/3 of a step a second. The median time would say 1/2.
TEST_F(ReportCommand, MfuAndTflopsAreOfOneRate) {
  RunData data = read_runs({run("one")})[0];
  const auto step = [](double seconds) {
    train::LoggedStep one;
    one.seconds = seconds;
    one.mfu = 60 / seconds;
    one.hfu = 90 / seconds;
    one.tflops_per_rank = 6 / seconds;
    return one;
  };
  data.steps = {step(10), step(1), step(3)};
  EXPECT_DOUBLE_EQ(*data.tflops_per_rank(), 4);
  EXPECT_DOUBLE_EQ(data.mfu(), 40);
  EXPECT_DOUBLE_EQ(*data.hfu(), 60);
  for (train::LoggedStep& one : data.steps) one.tflops_per_rank.reset();
  EXPECT_DOUBLE_EQ(data.mfu(), 30) << "older versions logged times alone";
}

TEST_F(ReportCommand, AStepWithoutTargetsHasNoLoss) {
  std::string metrics = file("one/metrics.jsonl");
  const auto put_zero = [&](const std::string& key) {
    const std::size_t at = metrics.rfind(key) + key.size();
    metrics.replace(at, metrics.find(',', at) - at, "0");
  };
  put_zero("\"loss\":");
  put_zero("\"targets\":");
  io::replace_file(folder_ / "one/metrics.jsonl", metrics);
  const RunData run_data = read_runs({run("one")})[0];
  EXPECT_EQ(run_data.loss(false).x, (std::vector<double>{2, 4, 6}));
  EXPECT_EQ(run_data.last_loss(), losses("one")[2]);
  EXPECT_NE(report({run("one"), "--json"}).out.find(fmt::format("\"loss\":{},", losses("one")[2])), std::string::npos);
}

TEST_F(ReportCommand, TokensAreThoseOfEveryStepsOwnBatch) {
  ASSERT_EQ(
      lockstep(words("one", {"train.init_from=resume", "train.global_batch=new", "model.batch_size=16", "train.max_iters=10"}))
          .code,
      0);
  const RunData run_data = read_runs({run("one")})[0];
  EXPECT_TRUE(compares_by_tokens({run_data}));
  EXPECT_EQ(run_data.loss(true).x, (std::vector<double>{2 * 48, 4 * 48, 6 * 48, 8 * 48, 8 * 48 + 2 * 192}));
  EXPECT_EQ(run_data.validation(true).x, (std::vector<double>{0, 4 * 48, 8 * 48, 8 * 48 + 2 * 192}));
  EXPECT_NE(report({run("one"), "--json"}).out.find("\"tokens\":768.0,"), std::string::npos);
}

TEST_F(ReportCommand, PrintsCurvesAndTables) {
  const Outcome shown = report({run("one"), run("piped")});
  ASSERT_EQ(shown.code, 0) << shown.err;
  for (const char* text : {"loss", "tokens per second", "Seconds of a step", "Exchanges of a step", "TFLOPS a rank",
                           "waiting for gradients of ranks", "Memory of rank 0", "activations", "Settings that differ",
                           "parallel.pp", "pipeline's bubble"})
    EXPECT_NE(shown.out.find(text), std::string::npos) << text << "\n" << shown.out;
}

TEST_F(ReportCommand, AFolderOfRunsStandsForThoseWithMetrics) {
  std::filesystem::create_directories(folder_ / "all/deep/below");
  for (const char* name : {"run-10", "run-2", "deep/below/run-1", ".hidden"})
    std::filesystem::copy(folder_ / "one", folder_ / "all" / name, std::filesystem::copy_options::recursive);
  std::filesystem::copy(folder_ / "one", folder_ / "all/silent", std::filesystem::copy_options::recursive);
  std::filesystem::remove(folder_ / "all/silent/metrics.jsonl");
  std::filesystem::copy(folder_ / "one", folder_ / "all/begun", std::filesystem::copy_options::recursive);
  io::replace_file(folder_ / "all/begun/metrics.jsonl", "");
  const auto labels = [&](const std::vector<std::string>& folders) {
    std::string all;
    for (const RunData& data : read_runs(folders)) all += data.label + " ";
    return all;
  };
  EXPECT_EQ(labels({run("all")}), "run-1 run-2 run-10 ");
  EXPECT_EQ(labels({run("all"), run("all/run-2"), run("one")}), "run-1 run-2 run-10 one ");
  EXPECT_EQ(labels({run("one/"), run("all/deep")}), "one run-1 ");
  std::filesystem::create_directory(folder_ / "more");
  std::filesystem::copy(folder_ / "one", folder_ / "more/run-2", std::filesystem::copy_options::recursive);
  EXPECT_EQ(labels({run("more"), run("all/run-2"), run("one")}),
            "more/run-2 all/run-2 " + folder_.path().filename().string() + "/one ");
  const Outcome shown = report({run("all")});
  EXPECT_EQ(shown.code, 0) << shown.err;
  EXPECT_NE(shown.out.find("run-1  run-2  run-10"), std::string::npos) << shown.out;
}

TEST_F(ReportCommand, AFolderWhoseRunsHaveNoMetricsIsAnError) {
  std::filesystem::create_directory(folder_ / "all");
  std::filesystem::copy(folder_ / "one", folder_ / "all/begun", std::filesystem::copy_options::recursive);
  io::replace_file(folder_ / "all/begun/metrics.jsonl", "");
  const Outcome refused = report({run("all")});
  EXPECT_EQ(refused.code, 2);
  EXPECT_NE(refused.err.find("/all has metrics yet"), std::string::npos) << refused.err;
  std::filesystem::remove(folder_ / "all/begun/metrics.jsonl");
  EXPECT_NE(report({run("all")}).err.find("there is no run in it"), std::string::npos);
}

TEST_F(ReportCommand, AnswersInJsonAndCsv) {
  const Outcome shown = report({run("one"), run("piped"), "--json"});
  ASSERT_EQ(shown.code, 0) << shown.err;
  const Json answer = Json::parse(shown.out);
  const Json& first = answer.at("runs").array()[0];
  EXPECT_EQ(first.at("run").string(), "one");
  EXPECT_EQ(first.at("loss").number(), losses("one").back());
  EXPECT_EQ(first.at("steps").integer(), 8);
  EXPECT_EQ(answer.at("steps").array().size(), 2U);
  EXPECT_GT(answer.at("memory").array()[1].at("all_bytes").integer(), 0);
  EXPECT_GT(answer.at("communication").array()[1].at("bubble").number(), 0);
  EXPECT_EQ(answer.at("origins").array()[0].at("command").string().find("lockstep train "), 0U);
  for (const Json& setting : answer.at("settings").array()) EXPECT_NE(setting.at("one").string(), setting.at("piped").string());
  const Outcome table = report({run("one"), "--csv", "--out", run("report.csv")});
  ASSERT_EQ(table.code, 0) << table.err;
  EXPECT_EQ(file("report.csv").find("run,name,ranks,"), 0U) << file("report.csv");
  EXPECT_EQ(table.out, "");
}

TEST_F(ReportCommand, AnAnswerForAProgramAndAPageAreOneCommand) {
  const Outcome both = report({run("one"), "--json", "--html", run("report.html")});
  ASSERT_EQ(both.code, 0) << both.err;
  EXPECT_EQ(Json::parse(both.out).at("runs").array().size(), 1U);
  EXPECT_EQ(both.err, "Wrote " + run("report.html") + "\n");
  const Outcome text = report({run("one"), "--out", run("text.html")});
  EXPECT_EQ(text.code, 2);
  EXPECT_NE(text.err.find("--html " + run("text.html") + " writes the page"), std::string::npos) << text.err;
}

// A browser says whether the script is right; where there is none this is skipped.
TEST_F(ReportCommand, TheBubbleIsMeasuredBesideTheSchedules) {
  const std::vector<RunData> runs = read_runs({run("one"), run("piped")});
  EXPECT_FALSE(runs[0].waiting());
  ASSERT_TRUE(runs[1].waiting());
  EXPECT_GT(*runs[1].waiting(), 0);
  EXPECT_LT(*runs[1].waiting(), 1);
  const Outcome shown = report({run("one"), run("piped")});
  EXPECT_NE(shown.out.find("of its schedule"), std::string::npos) << shown.out;
  ASSERT_EQ(report({run("piped"), "--html", run("report.html")}).code, 0);
  const std::string page = file("report.html");
  EXPECT_NE(page.find(fmt::format("were all passes as long; measured {:.1f} %", 100 * *runs[1].waiting())), std::string::npos);
  EXPECT_NE(page.find(".schedule .paper { fill:"), std::string::npos);
}

TEST_F(ReportCommand, ARunOfAnOlderVersionHasNoBubbleThatWasMeasured) {
  std::string older;
  for (Json line : lines("piped")) {
    Json ranks = line.at("ranks");
    Json::Object kept;
    for (const auto& [name, spread] : ranks.object()) {
      if (name != "pipeline" && name != "waiting") kept.emplace_back(name, spread);
    }
    older += line.set("ranks", Json(std::move(kept))).dump() + "\n";
  }
  io::replace_file(folder_ / "piped/metrics.jsonl", older);
  EXPECT_FALSE(read_runs({run("piped")})[0].waiting());
  EXPECT_EQ(report({run("piped")}).code, 0);
}

TEST_F(ReportCommand, OneRunIsComparedWithTheDefaults) {
  const Outcome shown = report({run("one")});
  ASSERT_EQ(shown.code, 0) << shown.err;
  EXPECT_NE(shown.out.find("Settings other than the defaults"), std::string::npos) << shown.out;
  EXPECT_NE(shown.out.find("model.n_layer"), std::string::npos) << shown.out;
}

TEST_F(ReportCommand, TellsEverythingThatIsWrongAtOnce) {
  std::filesystem::create_directory(folder_ / "empty");
  std::filesystem::copy(folder_ / "one", folder_ / "silent", std::filesystem::copy_options::recursive);
  std::filesystem::remove(folder_ / "silent/metrics.jsonl");
  std::filesystem::copy(folder_ / "one", folder_ / "spoilt", std::filesystem::copy_options::recursive);
  io::replace_file(folder_ / "spoilt/metrics.jsonl", "{\"step\":1}\n");
  const Outcome refused = report(
      {run("one"), run("one/."), run("empty"), run("none"), run("silent"), run("spoilt"), "--html", run("nowhere/report.html")});
  EXPECT_EQ(refused.code, 2);
  for (const char* text : {"the run is named twice", "/empty: no run's folder", "/none: no run's folder",
                           "/silent: the run has no metrics", "loss", "there is no folder"})
    EXPECT_NE(refused.err.find(text), std::string::npos) << text << "\n" << refused.err;
  EXPECT_EQ(report({run("one"), "--html", run("one")}).code, 2);
  const Outcome nothing = report({});
  EXPECT_EQ(nothing.code, 2);
  EXPECT_NE(nothing.err.find("RUN is missing"), std::string::npos) << nothing.err;
}

}  // namespace
}  // namespace lockstep::app
