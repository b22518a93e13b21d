#include "app/report/report_page.h"

#include <fmt/format.h>

#include <algorithm>

#include "app/cli/page.h"
#include "app/plan/drawing.h"
#include "app/report/chart.h"
#include "base/units.h"

namespace lockstep::app {
namespace {

constexpr std::string_view style = R"(
.wide { overflow-x: auto; } .wide > svg { border-radius: 6px; max-width: none; } .note { opacity: .75; font-size: .92em; }
td, th { white-space: nowrap; } td:first-child, th:first-child { text-align: left; }
)";

std::string html(const Table& table, bool numbers) {
  std::string text = "<div class=\"wide\"><table><thead>";
  std::string_view kind = "th", end = "</thead><tbody>\n";
  for (const std::vector<std::string>& line : table.lines()) {
    text += "<tr>";
    for (const std::string& cell : line)
      text += fmt::format("<{}{}>{}</{}>", kind, numbers ? " class=\"n\"" : "", escaped(cell), kind);
    text += fmt::format("</tr>{}", end);
    kind = "td", end = "\n";
  }
  return text + "</tbody></table></div>\n";
}

std::string section(std::string_view title, std::string_view about, const std::string& content) {
  return fmt::format("<section><h2>{}</h2>\n<p>{}</p>\n{}</section>\n", title, about, content);
}

std::string x_label(bool by_tokens) { return by_tokens ? "tokens" : "optimizer step"; }

std::string losses(const std::vector<RunData>& runs, bool by_tokens) {
  std::vector<Curve> curves;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    curves.push_back({runs[i].loss(by_tokens), i, false});
    if (Series validation = runs[i].validation(by_tokens); !validation.x.empty())
      curves.push_back({std::move(validation), i, true});
  }
  return line_chart("Loss", x_label(by_tokens), curves, false);
}

std::string speed(std::string_view title, double train::LoggedStep::* figure, const std::vector<RunData>& runs, bool by_tokens) {
  std::vector<Curve> curves;
  for (std::size_t i = 0; i < runs.size(); ++i) curves.push_back({runs[i].curve(figure, by_tokens), i, false});
  return line_chart(title, x_label(by_tokens), curves, true);
}

std::string account(const std::vector<RunData>& runs) {
  std::vector<std::string> names;
  for (std::size_t part = 0; part < train::kStepParts; ++part) names.emplace_back(name_of(static_cast<train::StepPart>(part)));
  std::vector<Bar> bars;
  for (const RunData& run : runs) {
    const std::array<double, train::kStepParts> parts = run.account();
    Bar bar{.label = fmt::format("{}: {}", run.label, format_seconds(run.seconds())), .parts = {}, .figures = {}};
    for (const double seconds : parts) {
      bar.parts.push_back(seconds);
      bar.figures.push_back(format_seconds(seconds));
    }
    bars.push_back(std::move(bar));
  }
  return bar_chart("Seconds of a step", names, bars);
}

std::string memory(const std::vector<RunData>& runs) {
  std::vector<std::string> names;
  for (const MemoryKind kind : kMemoryKinds) names.emplace_back(name_of(kind));
  names.emplace_back("batches and samples");
  std::vector<Bar> bars;
  for (const RunData& run : runs) {
    if (!run.resources) continue;
    std::vector<std::int64_t> bytes(run.resources->taken.begin(), run.resources->taken.end());
    bytes.push_back(run.resources->beside);
    const auto all = static_cast<std::uint64_t>(run.resources->all_bytes());
    Bar bar{.label = fmt::format("{}: {}", run.label, format_bytes(all)), .parts = {}, .figures = {}};
    for (const std::int64_t part : bytes) {
      bar.parts.push_back(static_cast<double>(part));
      bar.figures.push_back(format_bytes(static_cast<std::uint64_t>(part)));
    }
    bars.push_back(std::move(bar));
  }
  return bar_chart("Memory of rank 0", names, bars);
}

std::string schedules(const std::vector<RunData>& runs) {
  std::string text;
  for (const RunData& run : runs) {
    const std::optional<layout::Timeline> timeline = run.schedule();
    if (!timeline) continue;
    const std::optional<double> waiting = run.waiting();
    const std::string measured = waiting ? fmt::format("; measured {:.1f} %", 100 * *waiting) : "";
    text += fmt::format("<div class=\"wide\">{}</div>\n",
                        draw_svg(*timeline, escaped(run.label),
                                 fmt::format("{}, {} micro-batches: ranks wait {:.1f} % of the time, were all passes as long{}",
                                             escaped(run.config.parallel.schedule), run.config.optimizer.gas,
                                             100 * bubble(*timeline), measured)));
  }
  return text;
}

}  // namespace

std::string report_page(const std::vector<RunData>& runs) {
  const bool by_tokens = compares_by_tokens(runs);
  std::string body = fmt::format("<h1>lockstep report</h1>\n<p>{} run{}</p>\n{}", runs.size(), runs.size() == 1 ? "" : "s",
                                 html(summary_table(runs), false));
  body += section("Loss",
                  by_tokens ? "At equal numbers of tokens, for the runs' steps differ in them. Dashed: on the validation text."
                            : "Dashed: on the validation text.",
                  losses(runs, by_tokens));
  body += section("Throughput",
                  "The sum over all ranks, as logged; a step that follows an evaluation or a checkpoint has its time too.",
                  speed("Tokens per second", &train::LoggedStep::tokens_per_second, runs, by_tokens) +
                      speed("Model FLOPs utilisation, % (running mean)", &train::LoggedStep::mfu, runs, by_tokens));
  body += section("Where a step's time goes",
                  "Rank 0, medians of the logged steps but the first. Passes include waiting for other stages and layers' sums.",
                  account(runs) + html(account_table(runs), true));
  body +=
      section("Communication",
              "Waiting for gradients: what the backward pass does not hide. The bubble is the part of a step's passes in which "
              "ranks are in none, as measured; beside it that of the schedule, were all passes as long.",
              html(communication_table(runs), true));
  if (const Table table = memory_table(runs); !table.empty())
    body += section("Memory by owner", "What rank 0 declared and took.", memory(runs) + html(table, true));
  if (const std::string drawn = schedules(runs); !drawn.empty())
    body += section("Schedule", "Time to the right; the number in a pass is its micro-batch.", drawn);
  std::vector<SettingRow> rows = setting_rows(runs);
  std::erase_if(rows, [](const SettingRow& row) { return !row.differs; });
  const Table settings = settings_table(runs, rows);
  body += section(settings_title(runs), "The runs' names and folders are left out.",
                  settings.empty() ? "<p>none</p>\n" : html(settings, false));
  return html_page("lockstep report", std::string(chart_style) + std::string(style), body);
}

}  // namespace lockstep::app
