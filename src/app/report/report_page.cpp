#include "app/report/report_page.h"

#include <fmt/format.h>

#include <algorithm>

#include "app/cli/page.h"
#include "app/plan/drawing.h"
#include "app/report/chart.h"
#include "base/units.h"

namespace lockstep::app {
namespace {

using Line = std::vector<std::string>;

bool says_nothing(const std::string& cell) { return cell == "-" || cell.starts_with("0 "); }

/// The heading of a column: of a run with its colour.
std::string heading(const std::string& text, const std::vector<RunData>& runs) {
  const auto run = std::ranges::find(runs, text, &RunData::label);
  if (run == runs.end()) return fmt::format("<th>{}</th>", escaped(text));
  return fmt::format("<th><i class=\"{}\"></i>{}</th>", class_of_run(static_cast<std::size_t>(run - runs.begin())),
                     escaped(text));
}

/// A row; of values that are all the same one cell stands for all.
std::string row(const Line& line, bool same, bool hidden) {
  constexpr std::size_t longest = 24;  // that is not folded
  std::string text = fmt::format("<tr{}><th>{}</th>", hidden ? " class=\"more\"" : "", escaped(line[0]));
  for (std::size_t i = 1; i < (same ? 2 : line.size()); ++i) {
    std::string kind = line[i].size() <= longest ? "short" : "";
    if (same && line.size() > 2) kind += " same";
    text += fmt::format("<td class=\"{}\"{}><div>{}</div></td>", kind,
                        same ? fmt::format(" colspan=\"{}\"", line.size() - 1) : "", escaped(line[i]));
  }
  return text + "</tr>\n";
}

/// A table of lines, the first of which has the headings. `hides`: rows that say nothing, or the same of all, are shown when the
/// reader asks.
std::string table(const std::vector<Line>& lines, const std::vector<RunData>& runs, bool hides) {
  std::string head, rows;
  for (const std::string& text : lines[0]) head += heading(text, runs);
  std::size_t hidden = 0;
  for (std::size_t r = 1; r < lines.size(); ++r) {
    const Line& line = lines[r];
    const bool same = std::ranges::all_of(line.begin() + 1, line.end(), [&](const std::string& cell) { return cell == line[1]; });
    const bool hide = hides && ((same && line.size() > 2) || std::ranges::all_of(line.begin() + 1, line.end(), says_nothing));
    hidden += hide ? 1 : 0;
    rows += row(line, same, hide);
  }
  std::string ask;
  if (hidden > 0) {
    ask = fmt::format(
        "{1}<input type=\"checkbox\" class=\"all\" id=\"all-{0}\"><label for=\"all-{0}\"> show {2} more row{3}, which "
        "{4}</label>",
        lines[1][0] + lines[0][0], hidden + 1 == lines.size() ? "<p>none</p>" : "", hidden, hidden == 1 ? "" : "s",
        hidden == 1 ? "is the same everywhere or nothing" : "are the same everywhere or nothing");
  }
  return fmt::format("<div>{}<div class=\"wide\"><table><thead><tr>{}</tr></thead><tbody>\n{}</tbody></table></div></div>\n", ask,
                     head, rows);
}

std::string section(std::string_view title, std::string_view about, const std::string& content) {
  return fmt::format("<section><h2>{}</h2>\n<p class=\"note\">{}</p>\n{}</section>\n", title, about, content);
}

std::string x_label(bool by_tokens) { return by_tokens ? "tokens" : "optimizer step"; }

std::string losses(const std::vector<RunData>& runs, bool by_tokens) {
  std::vector<Curve> curves;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    curves.push_back({runs[i].loss(by_tokens), i, false});
    if (Series validation = runs[i].validation(by_tokens); !validation.x.empty())
      curves.push_back({std::move(validation), i, true});
  }
  return line_chart("Loss on the training text, and on the validation text with rings", x_label(by_tokens), curves, false);
}

std::string speed(std::string_view title, double train::LoggedStep::* figure, const std::vector<RunData>& runs, bool by_tokens) {
  std::vector<Curve> curves;
  for (std::size_t i = 0; i < runs.size(); ++i) curves.push_back({runs[i].curve(figure, by_tokens), i, false});
  return line_chart(title, x_label(by_tokens), curves, true);
}

/// Empty where no run has it.
std::string noise(const std::vector<RunData>& runs, bool by_tokens) {
  std::vector<Curve> curves;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    if (Series scale = runs[i].noise(by_tokens); !scale.x.empty()) curves.push_back({std::move(scale), i, false});
  }
  return curves.empty() ? "" : line_chart("Gradient noise scale, tokens (running mean)", x_label(by_tokens), curves, true);
}

std::string account(const std::vector<RunData>& runs) {
  std::vector<std::string> names;
  for (std::size_t part = 0; part < train::kStepParts; ++part) names.push_back(name_of(static_cast<train::StepPart>(part), runs));
  std::vector<Bar> bars;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const double step = runs[i].seconds();
    Bar bar{.label = fmt::format("{}: {}", runs[i].label, format_seconds(step)), .run = i, .parts = {}, .figures = {}};
    for (const double seconds : runs[i].account()) {
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
  for (std::size_t i = 0; i < runs.size(); ++i) {
    if (!runs[i].resources) continue;
    const Resources& resources = *runs[i].resources;
    std::vector<std::int64_t> bytes(resources.taken.begin(), resources.taken.end());
    bytes.push_back(resources.beside);
    const auto all = static_cast<std::uint64_t>(resources.all_bytes());
    Bar bar{.label = fmt::format("{}: {}", runs[i].label, format_bytes(all)), .run = i, .parts = {}, .figures = {}};
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

/// What runs reached, and how they came to be but for their commands, which take lines of their own.
std::vector<Line> facts(const std::vector<RunData>& runs) {
  std::vector<Line> lines = summary_table(runs).turned().lines();
  const std::vector<Line> origins = origin_table(runs).turned().lines();
  lines.insert(lines.end(), origins.begin() + 1, origins.end() - 1);
  std::erase_if(lines, [&](const Line& line) {  // runs are mostly called as their folders are
    return line[0] == "name" && std::equal(line.begin() + 1, line.end(), lines[0].begin() + 1, lines[0].end());
  });
  return lines;
}

std::string commands(const std::vector<RunData>& runs) {
  std::string text;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    if (!runs[i].origin) continue;
    text += fmt::format("<div class=\"command\"><i class=\"{}\"></i>{}<br><code>{}</code></div>\n", class_of_run(i),
                        escaped(runs[i].label), escaped(runs[i].origin->command));
  }
  return text;
}

constexpr std::string_view tools = R"(<div class="tools" hidden>
<label>smoothing <input type="range" name="smoothing" min="0" max="0.99" step="0.01" value="0"><output>0.00</output></label>
<label><input type="checkbox" name="y"> log y</label><label><input type="checkbox" name="x"> log x</label>
<button type="button" disabled>all steps</button>
<span class="note hint">drag: zoom; double click: back; click a run: hide it</span>
</div>
)";

/// The last text of each run.
std::string samples(const std::vector<RunData>& runs) {
  constexpr std::size_t most = 4000;  // bytes
  std::string text;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    if (runs[i].samples.empty()) continue;
    const SampledText& last = runs[i].samples.back();
    text += fmt::format("<div class=\"command\"><i class=\"{}\"></i>{}, step {}<br><code>{}</code></div>\n", class_of_run(i),
                        escaped(runs[i].label), last.step,
                        escaped(std::string_view(last.text).substr(0, most)) + (last.text.size() > most ? " ..." : ""));
  }
  return text;
}

std::string sections(const std::vector<RunData>& runs) {
  const bool by_tokens = compares_by_tokens(runs);
  std::string body =
      section("Loss", by_tokens ? "By tokens, for the runs' steps have different numbers of them." : "By optimizer steps.",
              losses(runs, by_tokens));
  body += section("Throughput",
                  "The sum over all ranks, as logged; a step that follows an evaluation or a checkpoint has its time too.",
                  speed("Tokens per second", &train::LoggedStep::tokens_per_second, runs, by_tokens) +
                      speed("Model FLOPs utilisation, % (running mean)", &train::LoggedStep::mfu, runs, by_tokens));
  if (const std::string scales = noise(runs, by_tokens); !scales.empty())
    body += section("Noise", "Tokens of a step from which on more of them hardly save steps (docs/optimizers.md).", scales);
  body += section(
      "Where a step's time goes",
      "Rank 0, medians of the logged steps but the first. Passes include waiting for other stages and layers' sums. What is lost "
      "to a late rank is a mean, and is in no other part.",
      account(runs) + table(account_table(runs).turned().lines(), runs, true));
  if (std::ranges::any_of(runs, [](const RunData& run) { return run.ranks() > 1; })) {
    body += section("Communication",
                    "Waiting for gradients: what the backward pass does not hide. The bubble is the part of a step's passes in "
                    "which ranks are in none, as measured. Below it stands the schedule's, were all passes as long.",
                    table(communication_table(runs).turned().lines(), runs, true));
  }
  if (const Table exchanges = exchange_table(runs); !exchanges.empty())
    body += section(
        "Exchanges",
        "What rank 0 sends in a step, as messages between hosts would carry it. Hidden is what is under way beside its own work.",
        table(exchanges.lines(), runs, false));
  if (const Table owners = memory_table(runs); !owners.empty())
    body +=
        section("Memory by owner", "What rank 0 declared and took.", memory(runs) + table(owners.turned().lines(), runs, true));
  if (const std::string drawn = schedules(runs); !drawn.empty())
    body += section("Schedule", "Time to the right; the number in a pass is its micro-batch.", drawn);
  if (const std::string texts = samples(runs); !texts.empty())
    body += section("Samples", "The last text that each run wrote at an evaluation, with its prompt.", texts);
  body += section(settings_title(runs), "The runs' names and folders are left out.",
                  table(settings_table(runs, setting_rows(runs)).lines(), runs, true));
  if (const std::string typed = commands(runs); !typed.empty())
    body += section("Commands", "What began each run, or went on with it last.", typed);
  return body;
}

std::string page_of(std::string_view title, std::string_view body) {
  return html_page(title, report_style, fmt::format("{}<script>{}</script>\n", body, report_script));
}

}  // namespace

std::string report_body(const std::vector<RunData>& runs, std::string_view title, std::string_view about) {
  return fmt::format("<header><h1>{}</h1>\n{}{}</header>\n{}<main>{}</main>\n", escaped(title), about,
                     runs.empty() ? "" : table(facts(runs), runs, false), tools, runs.empty() ? "" : sections(runs));
}

std::string report_page(const std::vector<RunData>& runs) {
  const std::string subject = runs.size() == 1 ? runs[0].label : fmt::format("{} runs", runs.size());
  return page_of(subject + ": lockstep report", report_body(runs, subject, "<p class=\"note\">lockstep report</p>\n"));
}

std::string watched_page(std::string_view body) {
  return page_of("lockstep watch", fmt::format("<p id=\"live\" class=\"note\" role=\"status\"></p>\n{}", body));
}

}  // namespace lockstep::app
