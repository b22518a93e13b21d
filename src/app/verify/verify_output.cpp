#include "app/verify/verify_output.h"

#include <fmt/format.h>

#include <algorithm>

#include "app/cli/command.h"
#include "arch/parameters.h"
#include "base/units.h"

namespace lockstep::app {

using lab::LayoutReport;
using lab::Verdict;

namespace {

/// Behind a line's start: further lines stand below it.
std::string indented(const std::string& text) {
  std::string all;
  for (const char c : text) c == '\n' ? all.append("\n    ") : all.append(1, c);
  return all;
}

std::size_t count(const std::vector<LayoutReport>& reports, Verdict verdict) {
  return static_cast<std::size_t>(std::ranges::count(reports, verdict, &LayoutReport::verdict));
}

}  // namespace

std::string table_head(const lab::VerifyModel& model, int steps) {
  return fmt::format(
      "{}: {} blocks of width {}, {} parameters, {}{}{}; {} step{}, micro-batches of {} x {} tokens\n"
      "{:<48} {:<16} {:>8}  {:<40} {:>8}\n",
      model.name, model.config.layers, model.config.width, format_count(arch::count_parameters(model.config).total),
      model.weights.type == DType::bf16 ? "bf16" : "fp32", model.config.dropout > 0 ? ", dropout" : "",
      model.optimizer.name == "AdamW" ? "" : ", " + model.optimizer.name, steps, steps == 1 ? "" : "s", model.samples,
      model.positions, "layout", "verdict", "error", "worst tensor", "time");
}

std::string table_line(const LayoutReport& report) {
  std::string line =
      fmt::format("{:<48} {:<16} {:>8}  {:<40} {:>8}\n", report.layout, name_of(report.verdict),
                  report.error == 0 ? "0" : fmt::format("{:.1e}", report.error), report.worst, format_seconds(report.seconds));
  if (report.failure.thrown) line += "    the run failed: " + indented(report.failure.reason) + "\n";
  if (!report.wrong.empty()) {
    line += fmt::format(
        "    against {}, which it {}\n", report.against,
        report.promises_bits ? "must equal in every bit" : fmt::format("must follow within {:.0e}", report.tolerance));
  }
  for (const std::string& wrong : report.wrong) line += fmt::format("    {}\n", wrong);
  return line;
}

std::string summary(const std::vector<LayoutReport>& reports) {
  double seconds = 0;
  for (const LayoutReport& report : reports) seconds += report.seconds;
  const std::size_t errors = count(reports, Verdict::error);
  return fmt::format("{} layout{}: {} bit-equal, {} within tolerance, {} WRONG{}; {}\n", reports.size(),
                     reports.size() == 1 ? "" : "s", count(reports, Verdict::bit_equal),
                     count(reports, Verdict::within_tolerance), count(reports, Verdict::wrong),
                     errors == 0 ? "" : fmt::format(", {} ended with an error", errors), format_seconds(seconds));
}

bool all_hold(const std::vector<LayoutReport>& reports) {
  return count(reports, Verdict::wrong) + count(reports, Verdict::error) == 0;
}

int exit_code(const std::vector<LayoutReport>& reports) {
  if (count(reports, Verdict::wrong) > 0) return 1;
  std::vector<int> codes;
  for (const LayoutReport& report : reports) {
    if (report.failure.thrown) codes.push_back(exit_code_of(report.failure.thrown));
  }
  if (codes.empty()) return 0;
  const bool alike = std::ranges::count(codes, codes.front()) == std::ssize(codes);
  return alike ? codes.front() : std::ranges::max(codes) == kBrokenRule ? kBrokenRule : kSystemError;
}

Table table_of(const std::vector<LayoutReport>& reports) {
  Table table = Table::of_keys({"model", "layout", "against", "promise", "tolerance", "verdict", "worst", "error", "wrong",
                                "reason", "ranks", "steps", "seconds"});
  for (const LayoutReport& report : reports) {
    table.row({report.model, report.layout, report.against, report.promises_bits ? "bits" : "tolerance", report.tolerance,
               name_of(report.verdict), report.worst.empty() ? Json() : Json(report.worst), report.error,
               Json::Array(report.wrong.begin(), report.wrong.end()),
               report.failure.thrown ? Json(report.failure.reason) : Json(), report.ranks, report.steps, report.seconds});
  }
  return table;
}

}  // namespace lockstep::app
