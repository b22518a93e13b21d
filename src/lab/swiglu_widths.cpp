#include "lab/swiglu_widths.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "base/checked.h"
#include "base/median.h"
#include "lab/bench_gemm.h"

namespace lockstep::lab {
namespace {

constexpr std::int64_t farthest = 100, step = 4;
constexpr std::size_t shown = 5;

struct Samples {
  std::vector<double> flops, share;  // by round
};

double flops_of(const std::vector<LayerShape>& layers) {
  double flops = 0;
  for (const LayerShape& layer : layers)
    flops += 2.0 * static_cast<double>(layer.calls * (layer.forward + 2 * layer.backward)) *
             static_cast<double>(layer.tokens * layer.out) * static_cast<double>(layer.in);
  return flops;
}

}  // namespace

std::vector<std::int64_t> swiglu_widths(std::int64_t hidden) {
  const std::int64_t base = 8 * hidden / 3;
  std::vector<std::int64_t> widths{base};
  for (std::int64_t width = std::max(step, round_up(base - farthest, step)); width <= base + farthest; width += step)
    if (width != base) widths.push_back(width);
  return widths;
}

double SwigluRow::median_share() const { return median_of(share); }

SwigluReport search_swiglu(Runtime& runtime, const SwigluOptions& options) {
  GemmBench bench(runtime, {.rounds = 1, .rivals = false, .isa = options.isa, .type = options.type});
  const std::vector<std::int64_t> widths = swiglu_widths(options.hidden);
  std::vector<Samples> samples(widths.size());
  for (int round = 0; round < options.rounds; ++round) {
    for (std::size_t i = 0; i < widths.size(); ++i) {
      const std::vector<LayerShape> layers = gated_layers(options.tokens, options.hidden, widths[i], 1);
      const Timing timing = bench.measure_together(layers);
      samples[i].flops.push_back(flops_of(layers) / timing.median);
      samples[i].share.push_back(flops_of(layers) / timing.room);
      if (options.progress) options.progress(widths[i]);
    }
  }
  std::vector<SwigluRow> rows;
  for (std::size_t i = 0; i < widths.size(); ++i)
    rows.push_back({widths[i], median_of(samples[i].flops), samples[i].share, 3 * widths[i] * options.hidden});
  SwigluReport report{options.hidden, options.tokens, rows.front(), {rows.begin() + 1, rows.end()}};
  std::ranges::stable_sort(report.ranked, std::greater<>(), &SwigluRow::median_share);
  return report;
}

Answer answer_of(const SwigluReport& report) {
  Answer answer;
  answer.facts({{"hidden", report.hidden}, {"tokens", report.tokens}});
  answer.say(
      fmt::format("SwiGLU of a model of width {}, {} tokens, forward and backward: widths around 8/3 x {} = {}\n"
                  "results: the base, then the best near it\n\n",
                  report.hidden, report.tokens, report.hidden, report.base.width));
  Table known({{"d_ff", "d_ff"},
               {"tflops", "tflops", "{:.4f}"},
               {"mlp_params", "mlp_params"},
               {"share", "share", "{:.1f} %", 100},
               {"", "least - most"},
               {"", "x", "{:.3f}"}});
  Table shown_rows = known, all = known;
  const auto add = [&](Table& table, const SwigluRow& row) {
    const auto [least, most] = std::ranges::minmax(row.share);
    table.row({row.width, 1e-12 * row.flops, row.parameters, row.median_share(),
               fmt::format("{:.1f} - {:.1f} %", 100 * least, 100 * most), row.median_share() / report.base.median_share()});
  };
  add(shown_rows, report.base);
  answer.fact("base", shown_rows.rows().front());
  for (const SwigluRow& row : report.ranked) add(all, row);
  for (std::size_t i = 0; i < std::min(shown, report.ranked.size()); ++i) add(shown_rows, report.ranked[i]);
  answer.table("", shown_rows);
  answer.rows("ranked", all);
  answer.say(
      "\nshare: of the multiply-add rate of the same moments, the median of rounds and their range; x: share over the base's\n"
      "model.ffn_width sets it\n");
  return answer;
}

}  // namespace lockstep::lab
