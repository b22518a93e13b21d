// How a StepReport looks.

#include <fmt/format.h>
#include <fmt/ranges.h>

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

void tell_account(const StepReport& report, Answer& answer) {
  Table table({{"", "where a step's time goes"}, {"", "ms", "{:.2f}", 1e3}, {"", "%", "{:.1f}", 100}});
  for (std::size_t part = 0; part < report.account.size(); ++part) {
    if (report.ranks == 1 && static_cast<Part>(part) == Part::ranks) continue;
    table.row({fmt::format("  {}", name_of(static_cast<Part>(part))), report.account[part], share(report, part)});
  }
  table.row({"  together", report.account_seconds, 1.0});
  answer.table("", table);
  answer.say(fmt::format("({} further steps, their ops timed{})\n", report.account_steps,
                         report.gpu.empty() ? "" : "; each op is waited for, so that these steps are longer"));
}

void tell_ops(const StepReport& report, Answer& answer) {
  const double steps = report.account_steps;
  Table table({{"", "op"}, {"", "ms", "{:.3f}", 1e3}, {"", "calls (of a step)"}});
  for (const OpTime& op : report.ops)
    table.row({fmt::format("  {}.{}", op.family, op.name), op.seconds / steps, static_cast<double>(op.calls) / steps});
  answer.say("\n");
  answer.table("", table);
}

/// A table of products with its headings; `last`: the heading of the rate.
Table product_table(const char* first, const char* m, const char* n, const char* k, const char* last) {
  return Table({{"", first}, {"", m}, {"", n}, {"", k}, {"", "ms", "{:.3f}", 1e3}, {"", "calls"}, {"", last, "{:.1f}", 1e-9}});
}

void tell_products(const StepReport& report, Answer& answer) {
  const double steps = report.account_steps;
  Table table = product_table("product", "tokens", "out", "in", "GF/s");
  for (const ProductTime& p : report.products) {
    const StepProduct all{p.role, p.m, p.n, p.k, static_cast<double>(p.calls)};
    table.row({fmt::format("  {}", name_of(p.role)), p.m, p.n, p.k, p.seconds / steps, static_cast<double>(p.calls) / steps,
               all.flops() / p.seconds});
  }
  answer.say("\n");
  answer.table("", table);
}

void tell_floor(const Floor& floor, Answer& answer) {
  Table table = product_table("floor", "m", "n", "k", "GF/s (the best of ours and the libraries)");
  for (const FloorProduct& p : floor.products)
    table.row({fmt::format("  {}", name_of(p.product.role)), p.product.m, p.product.n, p.product.k, p.step_seconds(),
               p.product.count, p.product.flops() / p.step_seconds()});
  const Cell none(nullptr, "");
  table.row({fmt::format("  optimizer, at {:.1f} GB/s", 1e-9 * floor.bandwidth), none, none, none, floor.optimizer_seconds});
  answer.say("\n");
  answer.table("", table);
}

void tell_ranks(const StepReport& report, Answer& answer) {
  Table ranks = Table::of_text({"of each rank, ms", "kernels", "waiting for ranks", "rest", "together"}, "{:.2f}", 1e3);
  for (std::size_t rank = 0; rank < report.each.size(); ++rank) {
    const RankAccount& a = report.each[rank];
    ranks.row({fmt::format("  rank {}", rank), a.kernels, a.ranks, a.rest, a.together()});
  }
  answer.say("\n");
  answer.table("", ranks);
  if (report.stages.empty()) return;
  answer.say(fmt::format("\nwaiting between passes, % of the {:.2f} ms that a step's take\n", 1e3 * report.stages.front().list));
  Table stages = Table::of_text({"stages", "passes, ms", "measured", "simulated as measured", "simulated equal"}, "{:.1f}", 100);
  for (const StageAccount& stage : report.stages)
    stages.row({fmt::format("  {}", fmt::join(stage.stages, ", ")), Cell(stage.passes, fmt::format("{:.2f}", 1e3 * stage.passes)),
                stage.waiting, stage.simulated, stage.equal});
  answer.table("", stages);
}

/// The lines above the tables: what was timed, and what it took.
std::string summary_of(const StepReport& report) {
  const double gflops = 1e-9 * report.flops_per_token * report.tokens_per_second();
  const std::string ranks = report.ranks == 1 ? "" : fmt::format("{} ranks with together ", report.ranks);
  std::string text = fmt::format("{}: {} layers, {} heads, width {}, vocabulary {}, {} x {} tokens, {}, {}{} thread{}{}\n",
                                 report.shape.name, report.shape.layers, report.shape.heads, report.shape.width,
                                 report.shape.vocabulary, report.shape.samples, report.shape.positions, type_of(report), ranks,
                                 report.threads, report.threads == 1 ? "" : "s", report.gpu.empty() ? "" : " and " + report.gpu);
  text += fmt::format("tokens/s     {:.1f} median, {:.1f} best of {} steps\n", report.tokens_per_second(),
                      best_tokens_per_second(report), report.seconds.size());
  text += fmt::format("GF/s         {:.1f} (6 N + 12 L C T a token)", gflops);
  if (report.peak_flops > 0) {
    text += fmt::format(", {:.0f} % of {:.1f}, the {}", 100e9 * gflops / report.peak_flops, 1e-9 * report.peak_flops,
                        report.gpu.empty() ? "multiply-add peak" : "datasheet's peak");
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
  return text;
}

Json::Object members_of(const StepReport& report) {
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
  return {{"peer", "lockstep " + report.version},
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
          {"device_peak_mib", report.gpu.empty() ? 0 : report.memory_bytes >> 20},
          {"exposed_s", rounded(report.exposed_seconds, 6)},
          {"floor_ratio", ratio ? Json(rounded(*ratio, 4)) : Json()},
          {"layout", name_of(report.layout, bench_defaults)},
          {"bubble", rounded(report.bubble, 4)},
          {"activation_bytes", report.activation_bytes},
          {"account", std::move(account)},
          {"stages", std::move(stages)}};
}

}  // namespace

Answer answer_of(const StepReport& report, bool details) {
  Answer answer;
  answer.facts(members_of(report));
  answer.say(summary_of(report));
  if (report.account_steps > 0) tell_account(report, answer);
  if (report.each.size() > 1) tell_ranks(report, answer);
  if (details && report.account_steps > 0) tell_ops(report, answer);
  if (details && report.account_steps > 0) tell_products(report, answer);
  if (details && report.floor) tell_floor(*report.floor, answer);
  return answer;
}

}  // namespace lockstep::lab
