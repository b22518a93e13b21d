#include <fmt/format.h>

#include <cmath>

#include "app/report/report_page.h"
#include "base/units.h"

namespace lockstep::app {
namespace {

std::string percent(std::optional<double> part) { return part ? fmt::format("{:.1f} %", 100 * *part) : "-"; }
std::string share(double part, double whole) { return whole > 0 ? fmt::format("{:.1f} %", 100 * part / whole) : "-"; }
std::string bytes_text(std::int64_t bytes) { return format_bytes(static_cast<std::uint64_t>(bytes)); }

}  // namespace

Table summary_table(const std::vector<RunData>& runs) {
  Table table = Table::of_text({"run", "name", "ranks", "layout", "steps", "tokens", "loss", "validation", "tokens/s", "MFU"});
  for (const RunData& run : runs) {
    const train::LoggedStep& last = run.steps.back();
    table.row({run.label, run.name, fmt::format("{}", run.ranks()), run.layout(), format_count(last.step),
               format_si(static_cast<double>(last.step) * last.tokens), fmt::format("{:.4f}", last.loss),
               run.evaluations.empty() ? "-" : fmt::format("{:.4f}", run.evaluations.back().validation),
               format_si(run.tokens_per_second()),
               percent(std::isfinite(run.mfu()) ? std::optional(run.mfu() / 100) : std::nullopt)});
  }
  return table;
}

Table account_table(const std::vector<RunData>& runs) {
  std::vector<std::string> head{"run", "step"};
  for (std::size_t part = 0; part < train::kStepParts; ++part) head.emplace_back(name_of(static_cast<train::StepPart>(part)));
  Table table = Table::of_text(head);
  for (const RunData& run : runs) {
    const std::array<double, train::kStepParts> parts = run.account();
    std::vector<Cell> row{run.label, format_seconds(run.seconds())};
    for (const double seconds : parts)
      row.emplace_back(fmt::format("{} ({})", format_seconds(seconds), share(seconds, run.seconds())));
    table.row(std::move(row));
  }
  return table;
}

Table communication_table(const std::vector<RunData>& runs) {
  Table table = Table::of_text({"run", "ranks", "waiting for gradients", "of the step", "least and most of all ranks",
                                "pipeline's bubble", "of its schedule"});
  for (const RunData& run : runs) {
    const double exposed = run.account()[static_cast<std::size_t>(train::StepPart::exposed)];
    const auto& spread = run.steps.back().exposed;
    const std::optional<layout::Timeline> schedule = run.schedule();
    table.row({run.label, fmt::format("{}", run.ranks()), run.ranks() > 1 ? format_seconds(exposed) : "-",
               run.ranks() > 1 ? share(exposed, run.seconds()) : "-",
               spread ? fmt::format("{} to {}", format_seconds(spread->first), format_seconds(spread->second)) : "-",
               percent(run.waiting()), percent(schedule ? std::optional(bubble(*schedule)) : std::nullopt)});
  }
  return table;
}

Table memory_table(const std::vector<RunData>& runs) {
  std::vector<std::string> head{"run"};
  for (const MemoryKind kind : kMemoryKinds) head.emplace_back(name_of(kind));
  head.insert(head.end(), {"batches and samples", "all"});
  Table table = Table::of_text(head);
  for (const RunData& run : runs) {
    if (!run.resources) continue;
    std::vector<Cell> row{run.label};
    for (const std::int64_t bytes : run.resources->taken) row.emplace_back(bytes_text(bytes));
    row.emplace_back(bytes_text(run.resources->beside));
    row.emplace_back(bytes_text(run.resources->all_bytes()));
    table.row(std::move(row));
  }
  return table;
}

Table settings_table(const std::vector<RunData>& runs) {
  std::vector<std::string> head{"setting"};
  if (runs.size() == 1) head.emplace_back("default");
  for (const RunData& run : runs) head.push_back(run.label);
  Table table = Table::of_text(head);
  for (SettingRow& row : setting_rows(runs)) {
    std::vector<Cell> cells{row.key};
    cells.insert(cells.end(), row.values.begin(), row.values.end());
    table.row(std::move(cells));
  }
  return table;
}

}  // namespace lockstep::app
