// `lockstep plan memory`: activations by the rule of thumb, beside what a run declares.

#include "planner/memory.h"

#include <fmt/format.h>

#include "app/cli/command_line.h"
#include "app/plan/named_model.h"
#include "app/plan/questions.h"
#include "arch/step_sizes.h"
#include "base/error.h"
#include "base/units.h"
#include "planner/formulas/memory_rules.h"

namespace lockstep::app {
namespace {

std::string gib(double bytes) { return fmt::format("{:.4g} GiB", bytes / 0x1p30); }

/// Of activations and temporaries, of one rank that has everything.
std::int64_t declared(const arch::ModelConfig& model, std::int64_t samples, layout::Recompute recompute) {
  const planner::Work work(model, model.block_size, {});
  planner::Candidate candidate{.plan = {}, .samples = samples};
  candidate.plan.recompute = recompute;
  const Ledger ledger = planner::declared_memory(work, candidate, {}).ledger;
  return ledger.total(MemoryKind::activations) + ledger.total(MemoryKind::workspace);
}

}  // namespace

int plan_memory(const Arguments& arguments) {
  std::string name;
  std::int64_t positions = 0, samples = 1;
  double copies = 28;
  CommandLine line("plan memory",
                   "Activations of one device in bf16, with recomputation of whole layers and without: by the rule of thumb, "
                   "which counts copies of the hidden states, and as a run of this program declares them (its logits are made a "
                   "chunk of tokens at a time, and fewer copies are kept).");
  line.positional("MODEL", name, "preset, recipe.toml, published model's folder or config.json", true, {"--model"});
  line.option("--seq", positions, "T", "positions of a sample; 0: as many as the model's context has");
  line.option("--micro-batch", samples, "N", "samples");
  line.positive("--copies", copies, "N", "of the hidden states that a layer works with: 24 (SmolLM2) to 48 (Gemma)");
  line.note("example:\n  lockstep plan memory llama3_8B --seq 32768 --micro-batch 1");
  if (!line.parse(arguments)) return 0;
  std::vector<Problem> problems;
  constexpr std::int64_t most = 1 << 24;
  if (positions < 0 || positions > most)
    problems.push_back({fmt::format("--seq {}: must be from 0 to {}", positions, most), "--seq 4096"});
  if (samples < 1 || samples > most)
    problems.push_back({fmt::format("--micro-batch {}: must be from 1 to {}", samples, most), "--micro-batch 1"});
  arch::ModelConfig model;
  try {
    model = named_model(name, positions).model();
  } catch (const UserError& error) {
    problems.insert(problems.end(), error.problems().begin(), error.problems().end());
  }
  if (problems.empty()) problems = arch::check(model, arch::StepSizes{.samples = samples, .positions = model.block_size});
  if (!problems.empty()) throw UserError(std::move(problems));
  const planner::ActivationRule rule =
      planner::activation_rule(model, static_cast<double>(samples), static_cast<double>(model.block_size), copies);
  const auto full = declared(model, samples, {layout::Recompute::Kind::full, 1}), none = declared(model, samples, {});
  const std::string head = fmt::format("{}, {} x {} tokens, bf16", name, samples, model.block_size);
  fmt::print("{:<44} {:>14} {:>14}\n", head, "recomputation", "without");
  fmt::print("{:<44} {:>14} {:>14}\n", "hidden states of a layer", gib(rule.hidden), gib(rule.hidden));
  fmt::print("{:<44} {:>14} {:>14}\n", fmt::format("a layer at work ({:g} copies)", copies), gib(rule.layer), "");
  fmt::print("{:<44} {:>14} {:>14}\n", fmt::format("kept by {} layers", model.layers), gib(rule.inputs), gib(rule.working));
  fmt::print("{:<44} {:>14} {:>14}\n", "logits in fp32", gib(rule.logits), gib(rule.logits));
  fmt::print("{:<44} {:>14} {:>14}\n", "by the rule", fmt::format("{:.0f} GiB", rule.with_recompute() / 0x1p30),
             fmt::format("{:.0f} GiB", rule.without() / 0x1p30));
  fmt::print("{:<44} {:>14} {:>14}\n", "as a run of ours declares", gib(static_cast<double>(full)),
             gib(static_cast<double>(none)));
  return 0;
}

}  // namespace lockstep::app
