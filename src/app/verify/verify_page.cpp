#include <fmt/format.h>

#include <algorithm>

#include "app/cli/page.h"
#include "app/verify/verify_output.h"
#include "arch/parameters.h"
#include "base/units.h"

namespace lockstep::app {

using lab::LayoutReport;
using lab::Verdict;

namespace {

constexpr std::string_view style = R"(
:root { --good: #2e7d32; --near: #1565c0; --bad: #c62828; }
td { overflow-wrap: anywhere; }
.v { white-space: nowrap; font-weight: 600; } .bit-equal { color: var(--good); } .within { color: var(--near); }
.WRONG, .error { color: var(--bad); } .base { opacity: .75; }
@media (prefers-color-scheme: dark) { :root { --good: #81c784; --near: #64b5f6; --bad: #ef9a9a; } }
)";

std::string_view class_of(Verdict verdict) { return verdict == Verdict::within_tolerance ? "within" : name_of(verdict); }

std::string row(const LayoutReport& report) {
  std::string wrong;
  if (report.failure.thrown) wrong = fmt::format("<li>the run failed: {}</li>", escaped(report.failure.reason));
  for (const std::string& sentence : report.wrong) wrong += fmt::format("<li>{}</li>", escaped(sentence));
  return fmt::format(
      "<tr{}><td><code>{}</code></td><td><code>{}</code></td><td>{}</td><td class=\"v {}\">{}</td><td class=\"n\">{}</td>"
      "<td>{}{}</td><td class=\"n\">{}</td></tr>\n",
      report.wanted ? "" : " class=\"base\"", escaped(report.layout), escaped(report.against),
      report.promises_bits ? "equal bits" : fmt::format("within {:.0e}", report.tolerance), class_of(report.verdict),
      name_of(report.verdict), report.error == 0 ? "0" : fmt::format("{:.1e}", report.error), escaped(report.worst),
      wrong.empty() ? "" : fmt::format("<ul class=\"{}\">{}</ul>", class_of(report.verdict), wrong),
      format_seconds(report.seconds));
}

Verdict worst_of(const std::vector<LayoutReport>& reports) {
  if (all_hold(reports)) return Verdict::bit_equal;
  return std::ranges::count(reports, Verdict::wrong, &LayoutReport::verdict) > 0 ? Verdict::wrong : Verdict::error;
}

}  // namespace

std::string to_html(const std::vector<lab::VerifyModel>& models, const std::vector<LayoutReport>& reports) {
  const Verdict worst = worst_of(reports);
  std::string page = fmt::format(
      "<h1>lockstep verify: <span class=\"{}\">{}</span></h1>\n<p>{}</p>\n<p>Each layout trained the model of its table on ranks "
      "that are threads. Every loss, gradient, weight and slot of the optimizer was compared after every step. A layout that "
      "only cuts, moves or makes again what another one keeps must equal it in <b>every bit</b>. One that adds in another order "
      "must follow one rank within a tolerance. Given that rank's gradients, it must update to the same bits.</p>\n",
      class_of(worst),
      worst == Verdict::bit_equal ? "every promise holds"
      : worst == Verdict::wrong   ? "a promise is broken"
                                  : "not every layout was proven",
      escaped(summary(reports)));
  for (const lab::VerifyModel& model : models) {
    page += fmt::format(
        "<h2>{}</h2>\n<p>{} blocks of width {}, {} parameters, {}</p>\n"
        "<table><thead><tr><th>layout</th><th>compared with</th><th>promise</th><th>verdict</th><th class=\"n\">error</th>"
        "<th>worst tensor</th><th class=\"n\">time</th></tr></thead><tbody>\n",
        escaped(model.name), model.config.layers, model.config.width, format_count(arch::count_parameters(model.config).total),
        model.weights.type == DType::bf16 ? "bf16" : "fp32");
    for (const LayoutReport& report : reports) {
      if (report.model == model.name) page += row(report);
    }
    page += "</tbody></table>\n";
  }
  return html_page("lockstep verify", style, page);
}

}  // namespace lockstep::app
