// How a StepReport looks.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>

#include "base/units.h"
#include "lab/step/bench_step.h"

namespace lockstep::lab {
namespace {

std::string_view type_of(const StepReport& report) { return report.dtype == DType::bf16 ? "bf16" : "fp32"; }

double share(const StepReport& report, std::size_t part) {
  return report.account_seconds > 0 ? report.account[part] / report.account_seconds : 0;
}

// As many decimals as `digits`.
double rounded(double value, int digits) {
  const double factor = std::pow(10.0, digits);
  return std::round(value * factor) / factor;
}

double best_tokens_per_second(const StepReport& report) {
  return static_cast<double>(report.shape.tokens()) / *std::ranges::min_element(report.seconds);
}

std::string account_table(const StepReport& report) {
  std::string text =
      fmt::format("where a step's time goes    ms        %   ({} further steps, their ops timed)\n", report.account_steps);
  for (std::size_t part = 0; part < report.account.size(); ++part) {
    if (report.ranks == 1 && static_cast<Part>(part) == Part::ranks) continue;
    text += fmt::format("  {:<22}{:>8.2f}   {:>6.1f}\n", name_of(static_cast<Part>(part)), 1e3 * report.account[part],
                        100 * share(report, part));
  }
  return text + fmt::format("  {:<22}{:>8.2f}   {:>6.1f}\n", "together", 1e3 * report.account_seconds, 100.0);
}

std::string ops_table(const StepReport& report) {
  const double steps = report.account_steps;
  std::string text = "\nop                              ms    calls (of a step)\n";
  for (const OpTime& op : report.ops) {
    text += fmt::format("  {:<26}{:>8.3f}  {:>6.0f}\n", fmt::format("{}.{}", op.family, op.name), 1e3 * op.seconds / steps,
                        static_cast<double>(op.calls) / steps);
  }
  return text;
}

std::string products_table(const StepReport& report) {
  const double steps = report.account_steps;
  std::string text = "\nproduct           tokens     out      in        ms    calls     GF/s\n";
  for (const ProductTime& p : report.products) {
    const StepProduct all{p.role, p.m, p.n, p.k, static_cast<double>(p.calls)};
    text += fmt::format("  {:<16}{:>6}  {:>6}  {:>6}  {:>8.3f}  {:>6.0f}  {:>8.1f}\n", name_of(p.role), p.m, p.n, p.k,
                        1e3 * p.seconds / steps, static_cast<double>(p.calls) / steps, 1e-9 * all.flops() / p.seconds);
  }
  return text;
}

std::string floor_table(const Floor& floor) {
  std::string text =
      "\nfloor                  m       n       k        ms    calls     GF/s (the best of ours and the libraries)\n";
  for (const FloorProduct& p : floor.products) {
    text += fmt::format("  {:<16}{:>6}  {:>6}  {:>6}  {:>8.3f}  {:>6.0f}  {:>8.1f}\n", name_of(p.product.role), p.product.m,
                        p.product.n, p.product.k, 1e3 * p.step_seconds(), p.product.count,
                        1e-9 * p.product.flops() / p.step_seconds());
  }
  return text + fmt::format("  optimizer, at {:.1f} GB/s {:>27.3f}\n", 1e-9 * floor.bandwidth, 1e3 * floor.optimizer_seconds);
}

}  // namespace

std::string to_text(const StepReport& report, bool details) {
  const double gflops = 1e-9 * report.flops_per_token * report.tokens_per_second();
  const std::string ranks = report.ranks == 1 ? "" : fmt::format("{} ranks with together ", report.ranks);
  std::string text =
      fmt::format("{}: {} layers, {} heads, width {}, vocabulary {}, {} x {} tokens, {}, {}{} thread{}\n", report.shape.name,
                  report.shape.layers, report.shape.heads, report.shape.width, report.shape.vocabulary, report.shape.samples,
                  report.shape.positions, type_of(report), ranks, report.threads, report.threads == 1 ? "" : "s");
  text += fmt::format("tokens/s     {:.1f} median, {:.1f} best of {} steps\n", report.tokens_per_second(),
                      best_tokens_per_second(report), report.seconds.size());
  text += fmt::format("GF/s         {:.1f} (6 N + 12 L C T a token)", gflops);
  if (report.peak_flops > 0) {
    text +=
        fmt::format(", {:.0f} % of {:.1f}, the multiply-add peak", 100e9 * gflops / report.peak_flops, 1e-9 * report.peak_flops);
  }
  text += fmt::format("\nstep         {}", format_seconds(report.median_seconds()));
  if (report.floor) {
    text += fmt::format("; floor {}: {:.3f} x the floor", format_seconds(report.floor->seconds()), *report.floor_ratio());
  }
  const layout::ParallelPlan& plan = report.layout.plan;
  if (name_of(report.layout) != name_of(data_parallel(report.ranks)))
    text += fmt::format("\nlayout       {}", name_of(report.layout, bench_defaults));
  if (plan.pp > 1) {
    text += fmt::format(
        "\npipeline     {} stages, {}, {} micro-batch{}: ranks wait {:.1f} % of the time where all stages are as long",
        plan.stages(), plan.schedule, plan.microbatches, plan.microbatches == 1 ? "" : "es", 100 * report.bubble);
  }
  if (report.ranks > 1) {
    text +=
        fmt::format("\nexposed      {} of a step waiting for gradients of other ranks", format_seconds(report.exposed_seconds));
  }
  text += fmt::format("\nfirst step   {}; first step after start: {:.2f} s\n", format_seconds(report.first_step_seconds),
                      report.first_step_after_start);
  text += fmt::format("peak memory  {} MiB, activations {} (recompute {})\nloss         {:.4f} first, {:.4f} last\n\n",
                      report.peak_mib, format_bytes(static_cast<std::uint64_t>(report.activation_bytes)),
                      to_string(plan.recompute), report.first_loss, report.last_loss);
  if (report.account_steps > 0) text += account_table(report);
  if (report.each.size() > 1) text += to_text(report.each) + to_text(report.stages);
  if (!details) return text;
  if (report.account_steps > 0) text += ops_table(report) + products_table(report);
  return report.floor ? text + floor_table(*report.floor) : text;
}

Json to_json(const StepReport& report) {
  Json account = Json::Object{};
  for (std::size_t part = 0; part < report.account.size(); ++part) {
    account.set(std::string(name_of(static_cast<Part>(part))), rounded(share(report, part), 4));
  }
  Json::Array stages;
  for (const StageAccount& stage : report.stages) {
    stages.push_back(Json::Object{{"passes_s", rounded(stage.passes, 6)},
                                  {"waiting", rounded(stage.waiting, 4)},
                                  {"simulated", rounded(stage.simulated, 4)},
                                  {"equal", rounded(stage.equal, 4)}});
  }
  const auto ratio = report.floor_ratio();
  return Json::Object{{"peer", "lockstep " + report.version},
                      {"shape", report.shape.name},
                      {"dtype", type_of(report)},
                      {"mode", "fused"},
                      {"ranks", report.ranks},
                      {"threads", report.threads},
                      {"tokens_per_s", rounded(report.tokens_per_second(), 1)},
                      {"best_tokens_per_s", rounded(best_tokens_per_second(report), 1)},
                      {"gflops", rounded(1e-9 * report.flops_per_token * report.tokens_per_second(), 1)},
                      {"steps", static_cast<std::int64_t>(report.seconds.size())},
                      {"warm_up_s", rounded(report.first_step_seconds, 2)},
                      {"first_loss", rounded(report.first_loss, 4)},
                      {"last_loss", rounded(report.last_loss, 4)},
                      {"peak_mib", report.peak_mib},
                      {"device_peak_mib", 0},
                      {"exposed_s", rounded(report.exposed_seconds, 6)},
                      {"floor_ratio", ratio ? Json(rounded(*ratio, 4)) : Json()},
                      {"layout", name_of(report.layout, bench_defaults)},
                      {"bubble", rounded(report.bubble, 4)},
                      {"activation_bytes", report.activation_bytes},
                      {"account", std::move(account)},
                      {"stages", std::move(stages)}};
}

}  // namespace lockstep::lab
