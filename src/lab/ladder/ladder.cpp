#include "lab/ladder/ladder.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/median.h"
#include "base/units.h"

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

std::string size_text(const LadderSample& sample) { return format_bytes(static_cast<std::uint64_t>(sample.memory_bytes)); }

std::string row_text(const LadderReport& report, const LadderRow& row) {
  const std::string head = fmt::format("{:>2}  {:<17}  {:<23}", row.rung.number, row.rung.name, row.rung.setting);
  if (!row.measured()) return fmt::format("{}  n/a: {}\n", head, row.rung.missing);
  if (&row == &report.rows.front()) {
    return fmt::format("{}  {:>10}    {:>10.1f}  {:<24}  {:>10}    {:>10}\n", head, "", row.tokens_after(), "", "",
                       size_text(row.after.front()));
  }
  return fmt::format("{}  {:>10.1f} -> {:>10.1f}  {:<24}  {:>10} -> {:>10}\n", head, row.tokens_before(), row.tokens_after(),
                     spread(row.ratios()), size_text(row.before.front()), size_text(row.after.front()));
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

std::string to_text(const LadderReport& report) {
  std::string text =
      fmt::format("{}, {}; a rank is one core, of {}\n", report.shape.name,
                  report.each ? "every optimisation alone beside rung 0" : "one optimisation after the other", report.cores);
  text += fmt::format(
      "medians of {} round{}, each of which measures every rung once; x counts within a round (least to most); memory of a "
      "rank\n\n",
      report.rounds, report.rounds == 1 ? "" : "s");
  text += fmt::format("{:>2}  {:<17}  {:<23}  {:>10}    {:>10}  {:<24}  {:>10}    {:>10}\n", "#", "optimisation", "setting",
                      "tokens/s", "after", "x", "memory", "after");
  for (const LadderRow& row : report.rows) text += row_text(report, row);
  text += fmt::format("\nproducts of rung 0 reach {:.0f} % of the rate of multiply-adds\n", 100 * report.foot_share);
  if (!report.each && report.rows.size() > 1) text += fmt::format("all rungs over rung 0: {}\n", spread(report.totals()));
  return text;
}

Json to_json(const LadderReport& report) {
  const auto numbers = [](const std::vector<double>& values) {
    Json::Array array;
    for (const double value : values) array.emplace_back(value);
    return array;
  };
  Json::Array rows;
  for (const LadderRow& row : report.rows) {
    Json entry = Json::Object{{"rung", row.rung.number}, {"name", std::string(row.rung.name)}};
    entry.set("setting", std::string(row.rung.setting));
    if (!row.measured()) {
      entry.set("missing", std::string(row.rung.missing));
    } else {
      entry.set("tokens_per_s", row.tokens_after());
      entry.set("memory_bytes", row.after.front().memory_bytes);
    }
    if (!row.before.empty()) {
      entry.set("tokens_per_s_before", row.tokens_before());
      entry.set("memory_bytes_before", row.before.front().memory_bytes);
      entry.set("ratios", numbers(row.ratios()));
    }
    rows.push_back(std::move(entry));
  }
  Json json = Json::Object{{"shape", std::string(report.shape.name)}, {"cores", report.cores}, {"rounds", report.rounds}};
  json.set("each", report.each);
  json.set("products_of_rate", report.foot_share);
  json.set("rows", std::move(rows));
  if (!report.each && report.rows.size() > 1) json.set("totals", numbers(report.totals()));
  return json;
}

}  // namespace lockstep::lab
