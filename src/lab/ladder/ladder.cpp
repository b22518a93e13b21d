#include "lab/ladder/ladder.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/median.h"
#include "base/units.h"
#include "lab/bench_gemm.h"
#include "lab/step/floor.h"
#include "ops/cpu/options.h"

namespace lockstep::lab {
namespace {

double median_tokens(const std::vector<LadderSample>& samples) {
  std::vector<double> tokens;
  for (const LadderSample& sample : samples) tokens.push_back(sample.tokens_per_second);
  return median_of(std::move(tokens));
}

std::vector<double> ratios_of(const std::vector<LadderSample>& after, const std::vector<LadderSample>& before) {
  std::vector<double> ratios;
  for (std::size_t i = 0; i < after.size(); ++i) ratios.push_back(after[i].tokens_per_second / before[i].tokens_per_second);
  return ratios;
}

// Rung 0's place, and that of every rung that is climbed.
std::vector<LadderPlace> places_of(const StepShape& shape, const LadderOptions& options) {
  std::vector<LadderPlace> places{foot_of(shape)};
  for (const Rung& rung : options.rungs) {
    if (rung.climb == nullptr) continue;
    LadderPlace place = options.each ? places.front() : places.back();
    rung.climb(place, options.cores);
    places.push_back(place);
  }
  return places;
}

std::string spread(const std::vector<double>& ratios) {
  const auto [least, most] = std::ranges::minmax(ratios);
  return fmt::format("{:.3f} ({:.3f} to {:.3f})", median_of(ratios), least, most);
}

Cell size_cell(const LadderSample& sample) {
  return {sample.memory_bytes, format_bytes(static_cast<std::uint64_t>(sample.memory_bytes))};
}

/// The figures of a row, which stand behind its setting in the table.
std::vector<Cell> figures_of(const LadderRow& row) {
  const Cell none(nullptr, "");
  if (!row.measured()) return {none, none, none, none, none, fmt::format("n/a: {}", row.rung.missing)};
  if (row.before.empty()) return {none, row.tokens_after(), none, none, size_cell(row.after.front())};
  return {row.tokens_before(), row.tokens_after(), spread(row.ratios()), size_cell(row.before.front()),
          size_cell(row.after.front())};
}

Json::Array numbers(const std::vector<double>& values) { return {values.begin(), values.end()}; }

/// A row as JSON. Figures that it does not have are left out.
Json row_json(const LadderRow& row) {
  Json entry = Json::Object{{"rung", row.rung.number}, {"name", row.rung.name}, {"setting", row.rung.setting}};
  if (!row.measured()) {
    entry.set("missing", row.rung.missing);
  } else {
    entry.set("tokens_per_s", row.tokens_after());
    entry.set("memory_bytes", row.after.front().memory_bytes);
  }
  if (row.before.empty()) return entry;
  entry.set("tokens_per_s_before", row.tokens_before());
  entry.set("memory_bytes_before", row.before.front().memory_bytes);
  entry.set("ratios", numbers(row.ratios()));
  return entry;
}

}  // namespace

double LadderRow::tokens_before() const { return median_tokens(before); }
double LadderRow::tokens_after() const { return median_tokens(after); }
std::vector<double> LadderRow::ratios() const { return ratios_of(after, before); }

std::vector<double> LadderReport::totals() const {
  const auto last = std::ranges::find_if(rows.rbegin(), rows.rend(), &LadderRow::measured);
  return ratios_of(last->after, rows.front().after);
}

LadderReport climb_ladder(const StepShape& shape, const LadderOptions& options, const MeasurePlace& measure) {
  LadderReport report{.shape = shape, .cores = options.cores, .rounds = options.rounds, .each = options.each, .rows = {}};
  const std::vector<LadderPlace> places = places_of(shape, options);
  for (const Rung& rung : options.rungs) report.rows.push_back({.rung = rung, .before = {}, .after = {}});
  for (int round = 0; round < options.rounds; ++round) {
    std::vector<LadderSample> samples(places.size());
    for (std::size_t i = 0; i < places.size(); ++i) {
      const std::size_t at = round % 2 == 0 ? i : places.size() - 1 - i;
      samples[at] = measure(places[at]);
    }
    report.rows.front().after.push_back(samples.front());
    std::size_t at = 0;
    for (LadderRow& row : report.rows) {
      if (row.rung.climb == nullptr) continue;
      row.before.push_back(samples[options.each ? 0 : at]);
      row.after.push_back(samples[++at]);
    }
  }
  return report;
}

double product_share(const StepShape& shape, Runtime& runtime, ops::Isa isa, const ops::PlainKernels& kernels) {
  GemmBench bench(runtime, {.rounds = 5, .rivals = false, .plain = kernels, .isa = isa});
  double flops = 0, room = 0;
  for (const StepProduct& product : step_products(model_of(shape), shape.samples, shape.positions)) {
    if (product.role == ProductRole::scores || product.role == ProductRole::values) continue;
    flops += product.flops();
    room += product.count * measure_layer(bench, product).ours.room;
  }
  return flops / room;
}

Answer answer_of(const LadderReport& report) {
  Answer answer;
  answer.say(fmt::format("{}, {}; a rank is one core, of {}\n", report.shape.name,
                         report.each ? "every optimisation alone beside rung 0" : "one optimisation after the other",
                         report.cores));
  answer.say(fmt::format(
      "medians of {} round{}, each of which measures every rung once; x counts within a round (least to most); memory of a "
      "rank\n\n",
      report.rounds, report.rounds == 1 ? "" : "s"));
  Table table = Table::of_text({"#", "optimisation", "setting", "tokens/s", "after", "x", "memory", "after", ""}, "{:.1f}");
  Json::Array rows;
  for (const LadderRow& row : report.rows) {
    std::vector<Cell> cells{Cell(row.rung.number, std::to_string(row.rung.number)), row.rung.name, row.rung.setting};
    for (Cell& cell : figures_of(row)) cells.push_back(std::move(cell));
    table.row(std::move(cells));
    rows.push_back(row_json(row));
  }
  answer.table("", table);
  answer.say(fmt::format("\nproducts of rung 0 reach {:.0f} % of the rate of multiply-adds\n", 100 * report.foot_share));
  answer.facts({{"shape", report.shape.name},
                {"cores", report.cores},
                {"rounds", report.rounds},
                {"each", report.each},
                {"products_of_rate", report.foot_share},
                {"rows", std::move(rows)}});
  if (report.each || report.rows.size() < 2) return answer;
  answer.say(fmt::format("all rungs over rung 0: {}\n", spread(report.totals())));
  answer.fact("totals", numbers(report.totals()));
  return answer;
}

}  // namespace lockstep::lab
