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

RunTable summary_table(const std::vector<RunData>& runs) {
  RunTable table{.head = {"run", "name", "ranks", "layout", "steps", "tokens", "loss", "validation", "tokens/s", "MFU"},
                 .rows = {}};
  for (const RunData& run : runs) {
    const train::LoggedStep& last = run.steps.back();
    table.rows.push_back({run.label, run.name, fmt::format("{}", run.ranks()), run.layout(), format_count(last.step),
                          format_si(static_cast<double>(last.step) * last.tokens), fmt::format("{:.4f}", last.loss),
                          run.evaluations.empty() ? "-" : fmt::format("{:.4f}", run.evaluations.back().validation),
                          format_si(run.tokens_per_second()),
                          percent(std::isfinite(run.mfu()) ? std::optional(run.mfu() / 100) : std::nullopt)});
  }
  return table;
}

RunTable account_table(const std::vector<RunData>& runs) {
  RunTable table{.head = {"run", "step"}, .rows = {}};
  for (std::size_t part = 0; part < train::kStepParts; ++part)
    table.head.emplace_back(name_of(static_cast<train::StepPart>(part)));
  for (const RunData& run : runs) {
    const std::array<double, train::kStepParts> parts = run.account();
    std::vector<std::string> row{run.label, format_seconds(run.seconds())};
    for (const double seconds : parts)
      row.push_back(fmt::format("{} ({})", format_seconds(seconds), share(seconds, run.seconds())));
    table.rows.push_back(std::move(row));
  }
  return table;
}

RunTable communication_table(const std::vector<RunData>& runs) {
  RunTable table{.head = {"run", "ranks", "waiting for gradients", "of the step", "least and most of all ranks",
                          "pipeline's bubble", "of its schedule"},
                 .rows = {}};
  for (const RunData& run : runs) {
    const double exposed = run.account()[static_cast<std::size_t>(train::StepPart::exposed)];
    const auto& spread = run.steps.back().exposed;
    const std::optional<layout::Timeline> schedule = run.schedule();
    table.rows.push_back({run.label, fmt::format("{}", run.ranks()), run.ranks() > 1 ? format_seconds(exposed) : "-",
                          run.ranks() > 1 ? share(exposed, run.seconds()) : "-",
                          spread ? fmt::format("{} to {}", format_seconds(spread->first), format_seconds(spread->second)) : "-",
                          percent(run.waiting()), percent(schedule ? std::optional(bubble(*schedule)) : std::nullopt)});
  }
  return table;
}

RunTable memory_table(const std::vector<RunData>& runs) {
  RunTable table{.head = {"run"}, .rows = {}};
  for (const MemoryKind kind : kMemoryKinds) table.head.emplace_back(name_of(kind));
  table.head.insert(table.head.end(), {"batches and samples", "all"});
  for (const RunData& run : runs) {
    if (!run.resources) continue;
    std::vector<std::string> row{run.label};
    for (const std::int64_t bytes : run.resources->taken) row.push_back(bytes_text(bytes));
    row.push_back(bytes_text(run.resources->beside));
    row.push_back(bytes_text(run.resources->all_bytes()));
    table.rows.push_back(std::move(row));
  }
  return table;
}

RunTable settings_table(const std::vector<RunData>& runs) {
  RunTable table{.head = {"setting"}, .rows = {}};
  if (runs.size() == 1) table.head.emplace_back("default");
  for (const RunData& run : runs) table.head.push_back(run.label);
  for (SettingRow& row : setting_rows(runs)) {
    std::vector<std::string> cells{std::string(row.key)};
    cells.insert(cells.end(), row.values.begin(), row.values.end());
    table.rows.push_back(std::move(cells));
  }
  return table;
}

}  // namespace lockstep::app
