#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "app/report/report_page.h"
#include "base/units.h"

namespace lockstep::app {
namespace {

/// Numbers with the text that people read; none is "-".
Cell count(std::int64_t n) { return {n, format_count(n)}; }
Cell loss(double value) { return std::isfinite(value) ? Cell(value, fmt::format("{:.4f}", value)) : Cell(nullptr, "nan"); }
Cell loss(std::optional<double> value) { return value ? loss(*value) : Cell(nullptr); }
Cell si(double value) { return {value, format_si(value)}; }
Cell seconds(double value) { return {value, format_seconds(value)}; }
Cell bytes(std::int64_t value) { return {value, format_bytes(static_cast<std::uint64_t>(value))}; }
Cell part(std::optional<double> value) { return value ? Cell(*value, fmt::format("{:.1f} %", 100 * *value)) : Cell(nullptr); }

std::optional<double> share(double value, double whole) { return whole > 0 ? std::optional(value / whole) : std::nullopt; }

/// "waiting for data" -> "waiting_for_data".
std::string key_of(std::string_view words, std::string_view unit) {
  std::string key = fmt::format("{}_{}", words, unit);
  std::ranges::replace(key, ' ', '_');
  return key;
}

}  // namespace

Table summary_table(const std::vector<RunData>& runs) {
  Table table({{"run", "run"},
               {"name", "name"},
               {"ranks", "ranks"},
               {"layout", "layout"},
               {"steps", "steps"},
               {"tokens", "tokens"},
               {"loss", "loss"},
               {"validation_loss", "validation"},
               {"tokens_per_second", "tokens/s"},
               {"mfu", "MFU"},
               {"hfu", "HFU"},
               {"tflops_per_rank", "TFLOPS a rank"},
               {"noise_scale", "noise scale"}});
  const auto percent = [](std::optional<double> value) {
    return part(value && std::isfinite(*value) ? std::optional(*value / 100) : std::nullopt);
  };
  for (const RunData& run : runs) {
    const train::LoggedStep& last = run.steps.back();
    const std::optional<double> tflops = run.tflops_per_rank(), noise = run.noise_scale();
    table.row({run.label, run.name, run.ranks(), run.layout(), count(last.step), si(last.all_tokens), loss(run.last_loss()),
               run.evaluations.empty() ? Cell(nullptr) : loss(run.evaluations.back().validation), si(run.tokens_per_second()),
               percent(run.mfu()), percent(run.hfu()), tflops ? Cell(*tflops, fmt::format("{:.3g}", *tflops)) : Cell(nullptr),
               noise ? si(*noise) : Cell(nullptr)});
  }
  return table;
}

Table origin_table(const std::vector<RunData>& runs) {
  Table table({{"run", "run"}, {"began", "began"}, {"machine", "machine"}, {"program", "lockstep"}, {"command", "command"}});
  for (const RunData& run : runs) {
    const RunOrigin* origin = run.origin ? &*run.origin : nullptr;
    const auto fact = [&](std::string RunOrigin::* of) { return origin != nullptr ? Cell(origin->*of) : Cell(nullptr); };
    table.row(
        {run.label, fact(&RunOrigin::time), fact(&RunOrigin::machine), fact(&RunOrigin::program), fact(&RunOrigin::command)});
  }
  return table;
}

Table account_table(const std::vector<RunData>& runs) {
  std::vector<Column> columns{{"run", "run"}, {"step_seconds", "step"}};
  for (std::size_t i = 0; i < train::kStepParts; ++i) {
    const auto part = static_cast<train::StepPart>(i);
    columns.push_back({key_of(name_of(part), "seconds"), name_of(part, runs)});
  }
  Table table(std::move(columns));
  for (const RunData& run : runs) {
    std::vector<Cell> row{run.label, seconds(run.seconds())};
    for (const double value : run.account()) {
      const Cell of_step = part(share(value, run.seconds()));
      row.push_back({value, fmt::format("{} ({})", format_seconds(value), of_step.text.value_or("-"))});
    }
    table.row(std::move(row));
  }
  return table;
}

Table communication_table(const std::vector<RunData>& runs) {
  Table table({{"run", "run"},
               {"ranks", "ranks"},
               {"gradient_wait_seconds", "waiting for gradients"},
               {"gradient_wait_share", "of the step"},
               {"gradient_waits_of_ranks", "least and most of all ranks"},
               {"bubble", "pipeline's bubble"},
               {"schedule_bubble", "of its schedule"}});
  for (const RunData& run : runs) {
    const double exposed = run.account()[static_cast<std::size_t>(train::StepPart::exposed)];
    const auto& spread = run.steps.back().exposed;
    const std::optional<layout::Timeline> schedule = run.schedule();
    const bool many = run.ranks() > 1;
    table.row({run.label, run.ranks(), many ? seconds(exposed) : Cell(nullptr),
               many ? part(share(exposed, run.seconds())) : Cell(nullptr),
               spread ? Cell(Json::Array{spread->first, spread->second},
                             fmt::format("{} to {}", format_seconds(spread->first), format_seconds(spread->second)))
                      : Cell(nullptr),
               part(run.waiting()), part(schedule ? std::optional(bubble(*schedule)) : std::nullopt)});
  }
  return table;
}

Table exchange_table(const std::vector<RunData>& runs) {
  Table table({{"run", "run"},
               {"purpose", "of"},
               {"sent_bytes", "sent"},
               {"waited_seconds", "waited for"},
               {"waited_share", "of the step"},
               {"hidden_seconds", "hidden, at most"}});
  for (const RunData& run : runs) {
    for (std::size_t i = 0; i < comm::kPurposes; ++i) {
      const auto purpose = static_cast<comm::Purpose>(i);
      const std::optional<comm::Exchanged> all = run.exchanged(purpose);
      if (!all || (all->sent == 0 && all->waited == 0)) continue;
      table.row({run.label, name_of(purpose), bytes(all->sent), seconds(all->waited), part(share(all->waited, run.seconds())),
                 seconds(all->hidden)});
    }
  }
  return table;
}

Table memory_table(const std::vector<RunData>& runs) {
  std::vector<Column> columns{{"run", "run"}};
  for (const MemoryKind kind : kMemoryKinds) columns.push_back({key_of(name_of(kind), "bytes"), std::string(name_of(kind))});
  columns.push_back({"batches_and_samples_bytes", "batches and samples"});
  columns.push_back({"all_bytes", "all"});
  Table table(std::move(columns));
  for (const RunData& run : runs) {
    if (!run.resources) continue;
    std::vector<Cell> row{run.label};
    for (const std::int64_t taken : run.resources->taken) row.push_back(bytes(taken));
    row.push_back(bytes(run.resources->beside));
    row.push_back(bytes(run.resources->all_bytes()));
    table.row(std::move(row));
  }
  return table;
}

Table settings_table(const std::vector<RunData>& runs, const std::vector<SettingRow>& rows) {
  std::vector<Column> columns{{"setting", "setting"}};
  if (runs.size() == 1) columns.push_back({"default", "default"});
  for (const RunData& run : runs) columns.push_back({run.label, run.label});
  Table table(std::move(columns));
  for (const SettingRow& row : rows) {
    std::vector<Cell> cells{row.key};
    cells.insert(cells.end(), row.values.begin(), row.values.end());
    table.row(std::move(cells));
  }
  return table;
}

std::string_view settings_title(const std::vector<RunData>& runs) {
  return runs.size() == 1 ? "Settings other than the defaults" : "Settings that differ";
}

}  // namespace lockstep::app
