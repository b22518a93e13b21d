// `lockstep plan memory`: activations by the rule of thumb, beside what a run declares.

#include "planner/memory.h"

#include <fmt/format.h>

#include "app/folder/answer_line.h"
#include "app/plan/named_model.h"
#include "app/plan/questions.h"
#include "arch/step_sizes.h"
#include "base/error.h"
#include "base/units.h"
#include "planner/formulas/memory_rules.h"

namespace lockstep::app {
namespace {

/// Bytes of activations and workspace on one rank that holds the whole model.
std::int64_t declared(const arch::ModelConfig& model, std::int64_t samples, layout::Recompute recompute) {
  const planner::Work work(model, model.block_size, {});
  planner::Candidate candidate{.plan = {}, .samples = samples};
  candidate.plan.recompute = recompute;
  const Ledger ledger = planner::declared_memory(work, candidate, {}).ledger;
  return ledger.total(MemoryKind::activations) + ledger.total(MemoryKind::workspace);
}

/// The rule's numbers know no bound.
Cell cell(auto bytes) {
  constexpr double most = 0x1p63;
  const auto number = static_cast<double>(bytes);
  return {bytes, number < most ? format_bytes(static_cast<std::uint64_t>(number)) : fmt::format("{:.4g} EiB", number / 0x1p60)};
}

}  // namespace

int plan_memory(const Arguments& arguments) {
  std::string name;
  std::int64_t positions = 0, samples = 1;
  double copies = 28;
  constexpr std::int64_t most = 1 << 24;
  AnswerLine line("plan memory",
                  "Activations of one device in bf16, with recomputation of whole layers and without. The rule of thumb counts "
                  "copies of the hidden states. Beside it stands what a run of this program declares. Its logits are made a "
                  "chunk of tokens at a time, and fewer copies are kept.");
  line.positional("MODEL", name, "preset, recipe.toml, folder of a run or of a published model, or config.json", true,
                  {"--model"});
  line.count("--seq", positions, "T", "positions of a sample; 0: as many as the model's context has", 0, most);
  line.count("--micro-batch", samples, "N", "samples", 1, most);
  line.positive("--copies", copies, "N", "of the hidden states that a layer works with: 24 (SmolLM2) to 48 (Gemma)");
  line.note("example:\n  lockstep plan memory llama3_8B --seq 32768 --micro-batch 1");
  line.ask_csv();
  if (!line.read(arguments)) return 0;
  NamedModel named;
  arch::ModelConfig model;
  line.collect([&] {
    named = named_model(name, positions);
    model = named.model();
  });
  if (line.problems().empty())
    line.problems() = arch::check(model, arch::StepSizes{.samples = samples, .positions = model.block_size});
  line.check();
  const planner::ActivationRule rule =
      planner::activation_rule(model, static_cast<double>(samples), static_cast<double>(model.block_size), copies);
  const auto full = declared(model, samples, {layout::Recompute::Kind::full, 1}), none = declared(model, samples, {});
  Table table({{"of", fmt::format("{}, {} x {} tokens, bf16", name, samples, model.block_size)},
               {"recompute_bytes", "recomputation"},
               {"bytes", "without"}});
  table.row({"hidden states of a layer", cell(rule.hidden), cell(rule.hidden)});
  table.row({fmt::format("a layer at work ({:g} copies)", copies), cell(rule.layer)});
  table.row({fmt::format("kept by {} layers", model.layers), cell(rule.inputs), cell(rule.working)});
  table.row({"logits in fp32", cell(rule.logits), cell(rule.logits)});
  table.row({"by the rule", cell(rule.with_recompute()), cell(rule.without())});
  table.row({"as a run of ours declares", cell(full), cell(none)});
  Answer answer;
  answer.say(named.note);
  answer.facts({{"model", name}, {"vocabulary", model.vocabulary}, {"samples", samples}, {"positions", model.block_size}});
  answer.table("activations", table);
  line.print(answer);
  return 0;
}

}  // namespace lockstep::app
