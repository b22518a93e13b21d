// Runs side by side: figures, page and errors, as a user types it.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

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
  std::string run(const std::string& name) const { return (folder_ / name).string(); }
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
  EXPECT_EQ(gas->values, (std::vector<std::string>{"1", "2"}));
  EXPECT_EQ(std::ranges::find(rows, "log.dir", &SettingRow::key), rows.end());
  EXPECT_EQ(std::ranges::find(rows, "model.n_layer", &SettingRow::key), rows.end());
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
  ASSERT_EQ(report({run("short"), "--out", run("report.html")}).code, 0);
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
  EXPECT_EQ(report({run("one"), "--out", run("report.html")}).code, 0);
  EXPECT_EQ(file("report.html").find("nan,"), std::string::npos);
}

TEST_F(ReportCommand, PrintsCurvesAndTables) {
  const Outcome shown = report({run("one"), run("piped")});
  ASSERT_EQ(shown.code, 0) << shown.err;
  for (const char* text : {"loss", "tokens per second", "Seconds of a step", "waiting for gradients of ranks", "Memory of rank 0",
                           "activations", "Settings that differ", "parallel.pp", "pipeline's bubble"})
    EXPECT_NE(shown.out.find(text), std::string::npos) << text << "\n" << shown.out;
}

TEST_F(ReportCommand, WritesOnePageThatNeedsNothingElse) {
  const std::string out = run("report.html");
  const Outcome written = report({run("one"), run("piped"), "--out", out});
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
  ASSERT_EQ(report({run("piped"), "--out", run("report.html")}).code, 0);
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
      {run("one"), run("one/."), run("empty"), run("none"), run("silent"), run("spoilt"), "--out", run("nowhere/report.html")});
  EXPECT_EQ(refused.code, 2);
  for (const char* text : {"the run is named twice", "/empty: no run's folder", "/none: no run's folder",
                           "/silent: the run has no metrics", "loss", "there is no folder"})
    EXPECT_NE(refused.err.find(text), std::string::npos) << text << "\n" << refused.err;
  EXPECT_EQ(report({run("one"), "--out", run("one")}).code, 2);
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
