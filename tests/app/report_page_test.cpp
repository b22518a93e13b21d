// Runs side by side as a page: what it holds, hides and escapes, and its charts.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <utility>

#include "app/cli/page.h"
#include "app/report/chart.h"
#include "app/report_command.h"

namespace lockstep::app {
namespace {

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t found = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
  return found;
}

/// What a page has for its script, chart by chart.
std::vector<Json> points_of(const std::string& page) {
  const std::string begin = "<script type=\"application/json\">";
  std::vector<Json> charts;
  for (std::size_t at = page.find(begin); at != std::string::npos; at = page.find(begin, at + 1)) {
    const std::size_t first = at + begin.size();
    charts.push_back(Json::parse(page.substr(first, page.find("</script>", first) - first)));
  }
  return charts;
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
  EXPECT_EQ(count(page, "<figure"), 6U);
  EXPECT_EQ(count(page, "<path class=\"line r"),
            2 * (2U + 2 + 2 * 2) + 1);  // losses, also of the validation text; throughput and MFU; one run's noise scale
  EXPECT_EQ(count(page, "<path class=\"ring r"), 2U);
  EXPECT_EQ(count(page, "<h2>"), 11U);
  EXPECT_NE(page.find("<h2>Schedule</h2>"), std::string::npos);
  EXPECT_NE(page.find("prefers-color-scheme: dark"), std::string::npos);
  for (const char* foreign : {"<link", "src=", "url(", "@import", "href=", "fetch(", "https:"})
    EXPECT_EQ(page.find(foreign), std::string::npos) << foreign;
  EXPECT_LT(page.size(), 75000U);  // it and its script have 150 kB beside the runs' data, which is little here
}

TEST_F(ReportCommand, APageHasThePointsAndARunOneColourEverywhere) {
  ASSERT_EQ(report({run("one"), run("piped"), "--html", run("report.html")}).code, 0);
  const std::string page = file("report.html");
  const std::vector<Json> charts = points_of(page);
  ASSERT_EQ(charts.size(), 4U);
  for (const Json& chart : charts) {
    EXPECT_EQ(chart.at("label").string(), "tokens");
    for (const Json& curve : chart.at("curves").array()) {
      const bool first = curve.at("name").string().starts_with("one");
      EXPECT_EQ(curve.at("run").integer(), first ? 0 : 1);
      EXPECT_EQ(curve.at("class").string().substr(0, 2), first ? "r0" : "r1");
    }
  }
  const Json& loss = charts[0].at("curves").array()[0];
  const std::vector<double> logged = losses("one");
  ASSERT_EQ(loss.at("y").array().size(), logged.size());
  for (std::size_t i = 0; i < logged.size(); ++i) {
    EXPECT_EQ(loss.at("x").array()[i].integer(), static_cast<std::int64_t>(i + 1) * 2 * 4 * 12);
    EXPECT_NEAR(loss.at("y").array()[i].number(), logged[i], 1e-5);
  }
  EXPECT_TRUE(charts[0].at("curves").array()[1].at("validation").boolean());
  for (const auto& [label, colour] : {std::pair("one", "r0"), std::pair("piped", "r1")}) {
    EXPECT_EQ(count(page, fmt::format("<th><i class=\"{}\"></i>{}</th>", colour, label)), 5U) << label;  // tables
    const std::size_t legends = colour[1] == '0' ? 3 : 4;  // it has micro-batches, and so a noise scale
    EXPECT_EQ(count(page, fmt::format("<i class=\"{}\"></i>{}</button>", colour, label)), legends) << label;
    EXPECT_EQ(count(page, fmt::format("<div><i class=\"{}\"></i>{}: ", colour, label)), 2U) << label;  // bars
  }
  EXPECT_EQ(class_of_run(9), "r1 again");
}

TEST_F(ReportCommand, APageSaysHowRunsCameToBe) {
  ASSERT_EQ(report({run("one"), run("piped"), "--html", run("report.html")}).code, 0);
  const std::string page = file("report.html");
  const Json environment = Json::parse(file("one/environment.json"));
  for (const std::string& fact : {environment.at("host").at("cpu").string(), environment.at("time").string().substr(0, 10),
                                  environment.at("program").at("version").string(), std::string("lockstep train data.dir=")})
    EXPECT_NE(page.find(escaped(fact)), std::string::npos) << fact;
  for (const char* name : {"one", "piped"}) io::replace_file(folder_ / name / "environment.json", "{}");
  EXPECT_EQ(report({run("one"), run("piped")}).code, 0);
  for (const char* name : {"one", "piped"}) std::filesystem::remove(folder_ / name / "environment.json");
  ASSERT_EQ(report({run("one"), run("piped"), "--html", run("report.html")}).code, 0);
  EXPECT_EQ(file("report.html").find("<h2>Commands</h2>"), std::string::npos);
  io::replace_file(folder_ / "one/environment.json", "{");
  const Outcome refused = report({run("one")});
  EXPECT_EQ(refused.code, 2);
  EXPECT_NE(refused.err.find("environment.json"), std::string::npos) << refused.err;
}

TEST_F(ReportCommand, TablesOfAPageHideWhatIsTheSame) {
  ASSERT_EQ(report({run("one"), run("piped"), "--html", run("report.html")}).code, 0);
  const std::string page = file("report.html");
  EXPECT_NE(page.find("<tr class=\"more\"><th>model.n_layer</th><td class=\"short same\" colspan=\"2\"><div>2</div></td></tr>"),
            std::string::npos);
  EXPECT_NE(page.find("<tr><th>parallel.pp</th><td class=\"short\"><div>1</div></td>"), std::string::npos);
  EXPECT_NE(page.find("more rows, which are the same everywhere or nothing</label>"), std::string::npos);
  ASSERT_EQ(lockstep(words("named", {"log.name=other"})).code, 0);
  ASSERT_EQ(report({run("named"), "--html", run("named.html")}).code, 0);
  EXPECT_EQ(page.find("<tr><th>name</th>"), std::string::npos);  // the run's folder says it
  EXPECT_NE(file("named.html").find("<tr><th>name</th>"), std::string::npos);
  ASSERT_EQ(report({run("one"), "--html", run("report.html")}).code, 0);
  EXPECT_EQ(file("report.html").find("<h2>Communication</h2>"), std::string::npos);  // of one rank there is none
}

TEST_F(ReportCommand, TextOfFilesIsNoMarkup) {
  std::filesystem::create_directory(folder_ / "evil");
  std::filesystem::rename(folder_ / "one", folder_ / "evil/a<b>&\"c<");
  std::filesystem::create_directory(folder_ / "evil/a<b>&\"c<x");
  std::filesystem::rename(folder_ / "piped", folder_ / "evil/a<b>&\"c<x/script>");
  Json environment = Json::parse(file("evil/a<b>&\"c</environment.json"));
  environment.set("command_line", Json::Array{"lockstep", "</script><script>alert(1)</script>"});
  io::replace_file(folder_ / "evil/a<b>&\"c</environment.json", environment.dump());
  ASSERT_EQ(report({run("evil"), "--html", run("report.html")}).code, 0);
  const std::string page = file("report.html");
  EXPECT_EQ(page.find("<b>&"), std::string::npos);
  EXPECT_EQ(page.find("alert(1)</script>"), std::string::npos);
  EXPECT_EQ(count(page, "</script>"), 5U);
  ASSERT_EQ(points_of(page).size(), 4U);
  EXPECT_EQ(points_of(page)[0].at("curves").array()[0].at("name").string(), "a<b>&\"c<");
}

TEST_F(ReportCommand, ThePagesScriptRunsInABrowser) {
  if (std::system("command -v chromium > /dev/null 2>&1") != 0) GTEST_SKIP() << "there is no chromium here";
  ASSERT_EQ(report({run("one"), run("piped"), "--html", run("report.html")}).code, 0);
  const std::string page = run("report.html"), home = run("home");
  const std::string command = fmt::format(
      "HOME={} timeout 60 chromium --headless --no-sandbox --disable-gpu --user-data-dir={} --dump-dom file://{} > {} 2> "
      "/dev/null",
      home, home, page, run("dom.html"));
  if (std::system(command.c_str()) != 0) GTEST_SKIP() << "chromium does not start here";
  const std::string dom = file("dom.html");
  EXPECT_NE(dom.find("<div class=\"tools\">"), std::string::npos) << dom.substr(0, 200);  // no longer hidden
  EXPECT_EQ(count(dom, "visibility=\"hidden\"></rect>"), 4U);
  EXPECT_EQ(count(dom, "<path class=\"line r"), 2 * (2U + 2 + 2 * 2) + 1);
  // It draws what was there before: ticks and lines.
  const auto axes_of = [](const std::string& text) {
    const std::size_t at = text.find("<g class=\"axes\">");
    std::string labels;
    for (std::size_t text_at = text.find("<text", at); text_at < text.find("</g>", at);
         text_at = text.find("<text", text_at + 1)) {
      const std::size_t begin = text.find('>', text_at) + 1;
      labels += text.substr(begin, text.find('<', begin) - begin) + " ";
    }
    return labels;
  };
  EXPECT_EQ(axes_of(dom), axes_of(file("report.html")));
  EXPECT_GT(axes_of(dom).size(), 10U);
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
  EXPECT_EQ(count(one, "<path class=\"dot r0\""), 1U) << one;
  EXPECT_EQ(count(one, "h0"), 1U) << one;
  EXPECT_EQ(one.find("nan"), std::string::npos);
  EXPECT_NE(one.find("\"y\":[3,null]"), std::string::npos);
  const std::string gap = line_chart("gap", "step", {{{"a", {1, 2, 3, 4, 5}, {1, 2, nan, 2, 1}}, 0, false}}, false);
  EXPECT_NE(gap.find("d=\"M0.0 963.0L250.0 37.0M750.0 37.0L1000.0 963.0\""), std::string::npos) << gap;
  EXPECT_EQ(line_chart("none", "step", {{{"a", {}, {}}, 0, false}}, true).find("nan"), std::string::npos);
  Series many{"many", {}, {}};
  for (int i = 0; i < 100000; ++i) {
    many.x.push_back(i);
    many.y.push_back(1e-3 * i);
  }
  EXPECT_LT(line_chart("many", "step", {{many, 0, false}}, false).size(), 45000U);
  many.x.resize(5000);
  many.y.resize(5000);
  EXPECT_LT(line_chart("more", "step", std::vector<Curve>(500, {many, 0, false}), false).size(), 500 * 6000U);
}

TEST(Chart, CurvesThatLieOnEachOtherTakeTurns) {
  const Series same{"a", {1, 2}, {3, 4}};
  const std::string two = line_chart("two", "step", {{same, 0, false}, {same, 1, false}}, false);
  EXPECT_NE(two.find("class=\"line r0\" style=\"stroke-dasharray:8 8;stroke-dashoffset:-0\""), std::string::npos) << two;
  EXPECT_NE(two.find("class=\"line r1\" style=\"stroke-dasharray:8 8;stroke-dashoffset:-8\""), std::string::npos) << two;
  EXPECT_EQ(line_chart("one", "step", {{same, 0, false}}, false).find("dasharray"), std::string::npos);
}

TEST(Chart, BarsAreOneScale) {
  const std::string chart =
      bar_chart("bars", {"a", "b", "nothing"},
                {{"first", 0, {1, 3, 0}, {"1 s", "3 s", "0 s"}}, {"second", 1, {2, 0, 0}, {"2 s", "0", "0"}}});
  for (const char* bar : {"<span class=\"p0\" style=\"width:25.00%\" title=\"a: 1 s\">1 s</span>", "style=\"width:75.00%\"",
                          "<span class=\"p0\" style=\"width:50.00%\"", "<i class=\"r1\"></i>second"})
    EXPECT_NE(chart.find(bar), std::string::npos) << bar << chart;
  EXPECT_EQ(chart.find("nothing"), std::string::npos);
  EXPECT_EQ(bar_chart("none", {"a"}, {{"run", 0, {0}, {"0 s"}}}).find("nan"), std::string::npos);
}

}  // namespace
}  // namespace lockstep::app
