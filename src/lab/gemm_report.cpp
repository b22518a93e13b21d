#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "lab/bench_gemm.h"
#include "ops/cpu/options.h"

namespace lockstep::lab {
namespace {

bool measured(const Timing& timing) { return timing.median > 0; }

Timing faster(const Timing& a, const Timing& b) {
  if (!measured(a) || !measured(b)) return measured(a) ? a : b;
  return a.room <= b.room ? a : b;
}

double ratio(const GemmRow& row) { return measured(row.library()) ? row.library().room / row.ours.room : 0; }
double f32_ratio(const GemmRow& row) { return row.ours_f32.room / row.ours.room; }

double other_ratio(const GemmRow& row) { return measured(row.other_order) ? row.ours.room / row.other_order.room : 0; }

// The geometric mean of the ratios that are above 0; 0 when none is.
double geometric_mean_of(const std::vector<GemmRow>& rows, double (*ratio_of)(const GemmRow& row)) {
  double logs = 0;
  int count = 0;
  for (const GemmRow& row : rows) {
    if (ratio_of(row) <= 0) continue;
    logs += std::log(ratio_of(row));
    ++count;
  }
  return count == 0 ? 0 : std::exp(logs / count);
}

// Milliseconds of a step's products, each contender by itself and the best library shape by shape.
std::string step_line(const std::vector<GemmRow>& rows, const std::string& model) {
  double ours = 0, f32 = 0, onednn = 0, openblas = 0, fastest = 0;
  for (const GemmRow& row : rows) {
    if (row.model != model) continue;
    const double calls = static_cast<double>(row.shape.calls) * 1e3;
    ours += calls * row.ours.median;
    f32 += calls * row.ours_f32.median;
    onednn += calls * row.onednn.median;
    openblas += calls * row.openblas.median;
    fastest += calls * row.fastest().median;
  }
  if (f32 > 0)
    return fmt::format("{:<12} products of a step, ms: ours {:.1f}, in fp32 {:.1f}: {:.3f} x\n", model, ours, f32, f32 / ours);
  return fmt::format("{:<12} products of a step, ms: ours {:.1f}, oneDNN {:.1f}, OpenBLAS {:.1f}, fastest of each {:.1f}\n",
                     model, ours, onednn, openblas, fastest);
}

/// A timing in GF/s, as text for people.
Cell timing_cell(const GemmRow& row, const Timing& timing) {
  if (!measured(timing)) return nullptr;
  return {Json::Object{{"median_seconds", timing.median}, {"best_seconds", timing.best}, {"share", row.share(timing)}},
          fmt::format("{:.1f}", row.flops() / timing.median * 1e-9)};
}

}  // namespace

std::string_view name_of(ProductKind kind) {
  switch (kind) {
    case ProductKind::forward:
      return "forward";
    case ProductKind::backward_input:
      return "input";
    case ProductKind::backward_weight:
      return "weight +=";
  }
  return "";
}

double GemmRow::flops() const {
  return 2.0 * static_cast<double>(shape.tokens) * static_cast<double>(shape.out) * static_cast<double>(shape.in);
}
double GemmRow::share(const Timing& timing) const { return timing.room > 0 ? flops() / timing.room : 0; }
Timing GemmRow::library() const { return faster(onednn, openblas); }
Timing GemmRow::fastest() const { return faster(ours, library()); }

double GemmReport::geometric_mean() const { return geometric_mean_of(rows, ratio); }
double GemmReport::mean_of_other_order() const { return geometric_mean_of(rows, other_ratio); }
double GemmReport::mean_against_f32() const { return geometric_mean_of(rows, f32_ratio); }

double GemmReport::worst_ratio() const {
  double worst = std::numeric_limits<double>::infinity();
  for (const GemmRow& row : rows)
    if (ratio(row) > 0) worst = std::min(worst, ratio(row));
  return std::isfinite(worst) ? worst : 0;
}

std::string GemmReport::summary() const {
  const std::string_view other = name_of(other_than(order));
  std::string text;
  std::vector<std::string> models;
  for (const GemmRow& row : rows)
    if (models.empty() || models.back() != row.model) models.push_back(row.model);
  for (const std::string& model : models) text += step_line(rows, model);
  if (mean_against_f32() > 0)
    text += fmt::format("bf16 against our fp32, shape by shape: geometric mean {:.3f} (numerics.bf16=auto: {})\n",
                        mean_against_f32(), name_of(order));
  if (mean_of_other_order() > 0) text += fmt::format("{} against that: geometric mean {:.3f}\n", other, mean_of_other_order());
  if (geometric_mean() > 0)
    text += fmt::format("ours against the faster library, shape by shape: geometric mean {:.3f}, least {:.2f}\n",
                        geometric_mean(), worst_ratio());
  if (!rows.empty()) text += "ratio, share: of times as parts of the multiply-add rate of the same moments\n";
  return text;
}

Answer answer_of(const GemmReport& report) {
  const bool half = report.type == DType::bf16;
  const auto other = name_of(other_than(report.order));
  const std::string in_bf16 = half ? "{:.0f}" : "";
  Answer answer;
  answer.say(fmt::format("{} products, {} threads, medians in GF/s: {}\n", half ? "bf16" : "fp32", report.threads,
                         fmt::join(report.contenders, ", ")));
  for (const std::string& note : report.notes) answer.say(fmt::format("note: {}\n", note));
  Table table({{"model", "model"},
               {"layer", "layer"},
               {"", "tokens x out x in"},
               {"tokens", "", ""},
               {"out", "", ""},
               {"in", "", ""},
               {"calls", "", ""},
               {"direction", "direction"},
               {"ours", "ours"},
               {"onednn", "oneDNN"},
               {"openblas", "OpenBLAS"},
               {"ours_f32", "in fp32", in_bf16},
               {"other_order", std::string(other), in_bf16},
               {"ratio", "ratio", "{:.2f}"},
               {"", "share", "{:.0f} %", 100}});
  for (const GemmRow& row : report.rows) {
    const auto [tokens, out, in] = std::array{row.shape.tokens, row.shape.out, row.shape.in};
    table.row({row.model, row.shape.name, fmt::format("{} x {} x {}", tokens, out, in), tokens, out, in, row.shape.calls,
               name_of(row.kind), timing_cell(row, row.ours), timing_cell(row, row.onednn), timing_cell(row, row.openblas),
               timing_cell(row, row.ours_f32), timing_cell(row, row.other_order), ratio(row) > 0 ? Json(ratio(row)) : Json(),
               row.share(row.ours)});
  }
  answer.facts({{"threads", report.threads},
                {"dtype", half ? "bf16" : "fp32"},
                {"contenders", Json::Array(report.contenders.begin(), report.contenders.end())},
                {"notes", Json::Array(report.notes.begin(), report.notes.end())},
                {"bf16_order", name_of(report.order)},
                {"geometric_mean", report.geometric_mean()},
                {"worst_ratio", report.worst_ratio()}});
  answer.table("rows", table);
  answer.say(report.summary());
  return answer;
}

}  // namespace lockstep::lab
