// Runs side by side: figures, page and errors, as a user types it.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "app/cli/page.h"
#include "app/report/chart.h"
#include "app/report/run_data.h"
#include "app/train_command.h"

namespace lockstep::app {
namespace {

Outcome report(std::vector<std::string> words) {
  words.insert(words.begin(), "report");
  return lockstep(std::move(words));
}

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t found = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
  return found;
}

class ReportCommand : public TrainCommand {
 protected:
  void SetUp() override {
    TrainCommand::SetUp();
    ASSERT_EQ(lockstep(words("one")).code, 0);
    ASSERT_EQ(lockstep(words("piped", {"--ranks", "2", "parallel.pp=2", "optimizer.gas=2", "train.threads=1"})).code, 0);
  }
  void TearDown() override {
    setenv("PATH", path_.c_str(), 1);
    unsetenv("BROWSER");
  }
  std::string run(const std::string& name) const { return (folder_ / name).string(); }
  const std::string path_ = std::getenv("PATH");
};

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
  EXPECT_NE(file("report.html").find("<td>" + last + "</td>"), std::string::npos) << last;
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

TEST_F(ReportCommand, PrintsCurvesAndTables) {
  const Outcome shown = report({run("one"), run("piped")});
  ASSERT_EQ(shown.code, 0) << shown.err;
  for (const char* text : {"loss", "tokens per second", "Seconds of a step", "waiting for gradients of ranks", "Memory of rank 0",
                           "activations", "Settings that differ", "parallel.pp", "pipeline's bubble"})
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

TEST_F(ReportCommand, OpensThePageInABrowser) {
  const std::string seen = run("seen"), show = run("show");
  io::replace_file(show, "#!/bin/sh\necho \"$@\" > " + seen + "\n");
  std::filesystem::permissions(show, std::filesystem::perms::owner_all);
  setenv("BROWSER", ("no-such-browser:" + show + " --new %s").c_str(), 1);
  const Outcome opened = report({run("one"), "--html", run("report.html"), "--open"});
  EXPECT_EQ(opened.code, 0) << opened.err;
  EXPECT_EQ(file("seen"), "--new " + run("report.html") + "\n");
  setenv("BROWSER", show.c_str(), 1);
  setenv("TMPDIR", folder_.path().c_str(), 1);
  EXPECT_EQ(report({run("one"), "--open"}).code, 0);
  unsetenv("TMPDIR");
  const std::string page = file("seen").substr(0, file("seen").size() - 1);
  EXPECT_EQ(page.find(run("lockstep-report-")), 0U) << page;
  EXPECT_NE(io::read_file(page).find("<h1>"), std::string::npos);
  setenv("BROWSER", "no-such-browser", 1);
  const Outcome missing = report({run("one"), "--html", run("report.html"), "--open"});
  EXPECT_EQ(missing.code, 2);
  EXPECT_NE(missing.err.find("BROWSER=no-such-browser: there is no such program"), std::string::npos) << missing.err;
  setenv("BROWSER", "false", 1);
  EXPECT_NE(report({run("one"), "--html", run("report.html"), "--open"}).err.find("false ended with 1"), std::string::npos);
  setenv("PATH", folder_.path().c_str(), 1);
  unsetenv("BROWSER");
  const Outcome none = report({run("one"), "--html", run("report.html"), "--open"});
  setenv("PATH", path_.c_str(), 1);
  EXPECT_NE(none.err.find("there is no xdg-open here, and $BROWSER is not set"), std::string::npos) << none.err;
  EXPECT_NE(none.err.find("open " + run("report.html") + " in a browser"), std::string::npos) << none.err;
}

TEST_F(ReportCommand, WritesOnePageThatNeedsNothingElse) {
  const std::string out = run("report.html");
  const Outcome written = report({run("one"), run("piped"), "--html", out});
  ASSERT_EQ(written.code, 0) << written.err;
  const std::string page = file("report.html");
  EXPECT_EQ(count(page, "<figure>"), 5U);
  EXPECT_EQ(count(page, "<polyline"), 2U + 2 + 2 * 2);  // losses, also of the validation text; throughput and MFU
  EXPECT_EQ(count(page, "<h2>"), 7U);
  EXPECT_NE(page.find("<h2>Schedule</h2>"), std::string::npos);
  EXPECT_NE(page.find("prefers-color-scheme: dark"), std::string::npos);
  for (const char* foreign : {"<script", "<link", "src=", "url(", "@import"}) EXPECT_EQ(page.find(foreign), std::string::npos);
  EXPECT_EQ(page.find("href="), std::string::npos);
}

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

TEST(Page, TextIsNoMarkup) {
  EXPECT_EQ(escaped("<a href=\"x\"> & b"), "&lt;a href=&quot;x&quot;&gt; &amp; b");
  const std::string page = html_page("a<b", "", "<p>c</p>");
  EXPECT_NE(page.find("<title>a&lt;b</title>"), std::string::npos);
  EXPECT_NE(page.find("<p>c</p>"), std::string::npos);
}

TEST(Chart, LeavesOutWhatIsNotFiniteAndDrawsOnePointOrMany) {
  const double nan = std::nan("");
  const std::string one = line_chart("one", "step", {{{"a", {1, 2}, {3, nan}}, 0, false}}, false);
  EXPECT_EQ(count(one, "<circle"), 1U);
  EXPECT_EQ(one.find("nan"), std::string::npos);
  EXPECT_EQ(line_chart("none", "step", {{{"a", {}, {}}, 0, false}}, true).find("nan"), std::string::npos);
  Series many{"many", {}, {}};
  for (int i = 0; i < 100000; ++i) {
    many.x.push_back(i);
    many.y.push_back(1e-3 * i);
  }
  EXPECT_LT(line_chart("many", "step", {{many, 0, false}}, false).size(), 20000U);
}

TEST(Chart, BarsAreOneScale) {
  const std::string chart = bar_chart("bars", {"a", "b"}, {{"first", {1, 3}, {"1", "3"}}, {"second", {2, 0}, {"2", "0"}}});
  EXPECT_NE(chart.find("width=\"240.00\""), std::string::npos) << chart;
  EXPECT_NE(chart.find("width=\"720.00\""), std::string::npos) << chart;
  EXPECT_NE(chart.find("width=\"480.00\""), std::string::npos) << chart;
}

}  // namespace
}  // namespace lockstep::app
