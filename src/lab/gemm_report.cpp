#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "lab/bench_gemm.h"

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

// Of the ratios that are above 0; 0 when none is.
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

std::string rate(const GemmRow& row, const Timing& timing) {
  return measured(timing) ? fmt::format("{:>9.1f}", row.flops() / timing.median * 1e-9) : fmt::format("{:>9}", "-");
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

Json timing_json(const GemmRow& row, const Timing& timing) {
  if (!measured(timing)) return nullptr;
  return Json::Object{{"median_seconds", timing.median}, {"best_seconds", timing.best}, {"share", row.share(timing)}};
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

std::string GemmReport::table() const {
  const bool half = type == DType::bf16;
  const ops::Bf16Order other = order == ops::Bf16Order::pairs ? ops::Bf16Order::widened : ops::Bf16Order::pairs;
  std::string text =
      fmt::format("{} products, {} threads, medians in GF/s: {}\n", half ? "bf16" : "fp32", threads, fmt::join(contenders, ", "));
  for (const std::string& note : notes) text += fmt::format("note: {}\n", note);
  text += fmt::format("{:<12} {:<14} {:>6} x {:>5} x {:>5} {:<10}{:>9}{}{:>9}{:>9}{:>8}{:>7}\n", "model", "layer", "tokens",
                      "out", "in", "direction", "ours", half ? fmt::format("  in fp32{:>9}", name_of(other)) : "", "oneDNN",
                      "OpenBLAS", "ratio", "share");
  std::vector<std::string> models;
  for (const GemmRow& row : rows) {
    if (models.empty() || models.back() != row.model) models.push_back(row.model);
    text += fmt::format("{:<12} {:<14} {:>6} x {:>5} x {:>5} {:<10}{}{}{}{}{:>8}{:>7}\n", row.model, row.shape.name,
                        row.shape.tokens, row.shape.out, row.shape.in, name_of(row.kind), rate(row, row.ours),
                        half ? rate(row, row.ours_f32) + rate(row, row.other_order) : "", rate(row, row.onednn),
                        rate(row, row.openblas), ratio(row) > 0 ? fmt::format("{:.2f}", ratio(row)) : "-",
                        fmt::format("{:.0f} %", 100 * row.share(row.ours)));
  }
  for (const std::string& model : models) text += step_line(rows, model);
  if (mean_against_f32() > 0)
    text += fmt::format("bf16 against our fp32, shape by shape: geometric mean {:.3f} (numerics.bf16=auto: {})\n",
                        mean_against_f32(), name_of(order));
  if (mean_of_other_order() > 0)
    text += fmt::format("{} against that: geometric mean {:.3f}\n", name_of(other), mean_of_other_order());
  if (geometric_mean() > 0)
    text += fmt::format("ours against the faster library, shape by shape: geometric mean {:.3f}, least {:.2f}\n",
                        geometric_mean(), worst_ratio());
  if (!rows.empty()) text += "ratio, share: of times as parts of the multiply-add rate of the same moments\n";
  return text;
}

Json GemmReport::json() const {
  Json::Array list;
  for (const GemmRow& row : rows) {
    list.push_back(Json::Object{{"model", row.model},
                                {"layer", row.shape.name},
                                {"tokens", row.shape.tokens},
                                {"out", row.shape.out},
                                {"in", row.shape.in},
                                {"calls", row.shape.calls},
                                {"direction", std::string(name_of(row.kind))},
                                {"ours", timing_json(row, row.ours)},
                                {"onednn", timing_json(row, row.onednn)},
                                {"openblas", timing_json(row, row.openblas)},
                                {"ours_f32", timing_json(row, row.ours_f32)},
                                {"other_order", timing_json(row, row.other_order)},
                                {"ratio", ratio(row) > 0 ? Json(ratio(row)) : Json()}});
  }
  Json::Array names, remarks;
  for (const std::string& name : contenders) names.emplace_back(name);
  for (const std::string& note : notes) remarks.emplace_back(note);
  return Json::Object{{"threads", threads},
                      {"dtype", type == DType::bf16 ? "bf16" : "fp32"},
                      {"contenders", std::move(names)},
                      {"notes", std::move(remarks)},
                      {"bf16_order", std::string(name_of(order))},
                      {"geometric_mean", geometric_mean()},
                      {"worst_ratio", worst_ratio()},
                      {"rows", std::move(list)}};
}

}  // namespace lockstep::lab
