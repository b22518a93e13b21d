#include "app/sweep/sweep_results.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "base/median.h"
#include "base/text/answer.h"
#include "base/units.h"
#include "io/file.h"

namespace lockstep::app {
namespace {

constexpr const char* kFile = "sweep.json";

std::vector<const SweepRun*> runs_of(const SweepResults& results, std::size_t point) {
  std::vector<const SweepRun*> runs;
  for (const SweepRun& run : results.runs) {
    if (run.point == point) runs.push_back(&run);
  }
  return runs;
}

// The mean of the steps with targets in the last tenth, or else the last loss before it. No number where no step has targets.
double loss_at(const SweepRun& run, double tokens) {
  const auto steps = std::clamp<std::int64_t>(std::llround(tokens / run.step_tokens), 1, std::ssize(run.losses));
  const std::int64_t last = std::max<std::int64_t>(1, steps / 10);
  double sum = 0;
  std::int64_t counted = 0;
  for (auto at = steps; at > 0 && (at > steps - last || counted == 0); --at) {
    const double loss = run.losses[static_cast<std::size_t>(at - 1)];
    sum += loss;
    counted += loss != 0 ? 1 : 0;
  }
  return sum / static_cast<double>(counted);
}

SweepRow row_of(const SweepResults& results, std::size_t point, double tokens) {
  const double peak = std::ranges::max(results.runs, {}, &SweepRun::thread_peak).thread_peak;
  std::vector<double> rates, mfus, losses;
  SweepRow row{.point = point};
  for (const SweepRun* run : runs_of(results, point)) {
    rates.push_back(run->tokens_per_second);
    mfus.push_back(peak > 0 ? run->mfu * run->thread_peak / peak : run->mfu);
    losses.push_back(loss_at(*run, tokens));
    row.bytes = run->bytes;
    row.diverged = row.diverged || run->diverged;
  }
  row.repeats = std::ssize(rates);
  row.least = std::ranges::min(rates);
  row.greatest = std::ranges::max(rates);
  row.median = median_of(std::move(rates));
  row.mfu = median_of(std::move(mfus));
  if (!row.diverged && std::ranges::all_of(losses, [](double loss) { return std::isfinite(loss); }))
    row.loss = median_of(std::move(losses));
  return row;
}

Json to_json(const SweepRun& run) {
  Json::Array losses;
  for (const double loss : run.losses) losses.emplace_back(loss);
  return Json::Object{{"point", static_cast<std::int64_t>(run.point)},
                      {"repeat", run.repeat},
                      {"tokens_per_second", run.tokens_per_second},
                      {"mfu", run.mfu},
                      {"thread_peak_flops", run.thread_peak},
                      {"step_tokens", run.step_tokens},
                      {"bytes", run.bytes},
                      {"losses", Json(std::move(losses))},
                      {"diverged", run.diverged}};
}

SweepRun run_from(const Json& json) {
  SweepRun run{.point = static_cast<std::size_t>(json.at("point").integer()),
               .repeat = json.at("repeat").integer(),
               .tokens_per_second = json.at("tokens_per_second").number(),
               .mfu = json.at("mfu").number(),
               .thread_peak = json.at("thread_peak_flops").number(),
               .step_tokens = json.at("step_tokens").number(),
               .bytes = json.at("bytes").integer(),
               .losses = {},
               .diverged = json.at("diverged").boolean()};
  for (const Json& loss : json.at("losses").array())
    run.losses.push_back(loss.is_null() ? std::numeric_limits<double>::quiet_NaN() : loss.number());
  return run;
}

std::string verdict(const SweepRow& row, const SweepRow& best) {
  if (row.diverged) return "diverged";
  if (row.point == best.point) return "fastest";
  const std::string less = fmt::format("{:.1f} % slower", 100 * (1 - row.median / best.median));
  if (row.repeats < 2 || best.repeats < 2) return less + ", noise unknown";
  return row.noisy ? "within the noise of the fastest" : less;
}

/// The ranking, for people, as CSV and as JSON.
Table table_of(const SweepResults& results) {
  Table table({{"", "rank"},
               {"point", "point"},
               {"repeats", "", ""},
               {"tokens_per_second", "tokens/s"},
               {"least", "", ""},
               {"greatest", "", ""},
               {"", "spread", "{:.1f} %", 100},
               {"mfu", "MFU", "{:.1f} %"},
               {"loss", "loss", "{:.4f}"},
               {"bytes", "memory"},
               {"within_noise_of_fastest", "", ""},
               {"diverged", "", ""},
               {""}});
  const std::vector<SweepRow> rows = ranking(results);
  for (const SweepRow& row : rows)
    table.row({1 + (&row - rows.data()),
               results.points[row.point],
               row.repeats,
               {row.median, format_si(row.median)},
               row.least,
               row.greatest,
               (row.greatest - row.least) / row.median,
               row.mfu,
               row.loss ? Cell(*row.loss) : Cell(nullptr, "none"),
               {row.bytes, format_bytes(static_cast<std::uint64_t>(row.bytes))},
               row.noisy,
               row.diverged,
               verdict(row, rows.front())});
  return table;
}

}  // namespace

io::Path RunPlace::folder(const io::Path& sweep) const { return sweep / "runs" / fmt::format("{}-{}", point + 1, repeat + 1); }

std::string to_text(const AllReduceSpread& spread) {
  return fmt::format("all_reduce of {} on {} ranks: {} (from {} to {})\n", format_bytes(static_cast<std::uint64_t>(spread.bytes)),
                     spread.ranks, format_seconds(spread.median), format_seconds(spread.least), format_seconds(spread.greatest));
}

bool SweepResults::has(std::size_t point, std::int64_t repeat) const {
  return std::ranges::any_of(runs, [&](const SweepRun& run) { return run.point == point && run.repeat == repeat; });
}

double equal_tokens(const SweepResults& results) {
  std::optional<double> least;
  for (const SweepRun& run : results.runs) {
    const double tokens = run.step_tokens * static_cast<double>(run.losses.size());
    if (!run.diverged) least = std::min(tokens, least.value_or(tokens));
  }
  return least.value_or(0);
}

std::vector<SweepRow> ranking(const SweepResults& results) {
  const double tokens = equal_tokens(results);
  std::vector<SweepRow> rows;
  for (std::size_t point = 0; point < results.points.size(); ++point) {
    if (!runs_of(results, point).empty()) rows.push_back(row_of(results, point, tokens));
  }
  std::ranges::stable_sort(rows, std::ranges::greater(), &SweepRow::median);
  std::ranges::stable_partition(rows, [](const SweepRow& row) { return !row.diverged; });
  for (SweepRow& row : rows) {
    const SweepRow& best = rows.front();
    row.noisy = row.point != best.point && row.repeats > 1 && best.repeats > 1 && row.greatest >= best.least;
  }
  return rows;
}

Json to_json(const SweepResults& results) {
  Json::Array labels, spreads, runs, begun, left_out;
  for (const std::string& label : results.points) labels.emplace_back(label);
  for (const AllReduceSpread& one : results.all_reduce) {
    spreads.emplace_back(Json::Object{
        {"ranks", one.ranks}, {"bytes", one.bytes}, {"least", one.least}, {"median", one.median}, {"greatest", one.greatest}});
  }
  for (const SweepRun& run : results.runs) runs.push_back(to_json(run));
  for (const RunPlace& run : results.begun)
    begun.emplace_back(Json::Object{{"point", static_cast<std::int64_t>(run.point)}, {"repeat", run.repeat}});
  for (const LeftOut& one : results.left_out) {
    Json::Array why;
    for (const Problem& problem : one.why) why.emplace_back(problem.message);
    left_out.emplace_back(Json::Object{{"point", one.label}, {"why", Json(std::move(why))}});
  }
  return Json::Object{{"definition", results.definition},      {"points", Json(std::move(labels))},
                      {"left_out", Json(std::move(left_out))}, {"all_reduce_seconds", Json(std::move(spreads))},
                      {"equal_tokens", equal_tokens(results)}, {"ranking", table_of(results).rows()},
                      {"begun", Json(std::move(begun))},       {"runs", Json(std::move(runs))}};
}

void save(const SweepResults& results, const io::Path& folder) {
  io::replace_file(folder / "sweep.csv", table_of(results).csv());
  io::replace_file(folder / kFile, to_json(results).dump(1) + "\n");
}

std::optional<SweepResults> load_sweep(const io::Path& folder) {
  const io::Path path = folder / kFile;
  if (!io::exists(path)) return std::nullopt;
  const Json json = Json::parse(io::read_document(path), path.string());
  SweepResults results{.definition = json.at("definition"), .points = {}, .all_reduce = {}, .runs = {}};
  for (const Json& label : json.at("points").array()) results.points.push_back(label.string());
  for (const Json& one : json.at("all_reduce_seconds").array()) {
    results.all_reduce.push_back({one.at("ranks").integer(), one.at("bytes").integer(), one.at("least").number(),
                                  one.at("median").number(), one.at("greatest").number()});
  }
  if (const Json* begun = json.find("begun")) {
    for (const Json& run : begun->array())
      results.begun.push_back({static_cast<std::size_t>(run.at("point").integer()), run.at("repeat").integer()});
  }
  for (const Json& run : json.at("runs").array()) {
    results.runs.push_back(run_from(run));
    const SweepRun& last = results.runs.back();
    if (last.point >= results.points.size() || last.losses.empty() || !(last.step_tokens > 0))
      throw UserError(fmt::format("{}: run {} is no run of this sweep", path.string(), results.runs.size()), "another --out");
  }
  return results;
}

std::string to_text(const SweepResults& results) {
  std::string text;
  for (const AllReduceSpread& one : results.all_reduce) text += to_text(one);
  return text + table_of(results).text() +
         fmt::format("tokens/s: medians of the repeats; loss: after {} tokens each; memory: of rank 0\n",
                     format_si(equal_tokens(results)));
}

}  // namespace lockstep::app
