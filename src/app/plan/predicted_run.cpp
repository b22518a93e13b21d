#include "app/plan/predicted_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "app/plan/recipe_layout.h"
#include "app/start/assemble.h"
#include "app/start/plan.h"
#include "device/runtime.h"
#include "layout/pipeline/schedules.h"
#include "ops/open_ops.h"
#include "planner/memory.h"
#include "planner/search.h"
#include "planner/waiting.h"
#include "train/memory/rank_memory.h"

namespace lockstep::app {
namespace {

// Memory that kernels take as the engine asks for it counts too.
std::int64_t kernel_bytes(const MeasuredRun& run) {
  const auto runtime = open_runtime({}, {.threads = static_cast<int>(run.resources.threads)});
  const auto stream = runtime->make_stream();
  const ops::CpuOptions options{.isa = run.config.numerics.isa,
                                .products = run.config.numerics.products,
                                .bf16 = run.config.numerics.bf16,
                                .plain = plain_kernels_of(run.config)};
  const auto kernels = ops::make_ops(*runtime, *stream, {.cpu = options});
  if (run.config.numerics.canonical) kernels->take_sum_grids();
  return kernels->workspace_bytes();
}

std::vector<ComparedFigure> compared_memory(const MeasuredRun& run, layout::ParallelPlan plan) {
  plan.kept = static_cast<int>(run.resources.kept_parts);
  const TextFacts text = unread_text(run.config, run.resources.vocabulary);
  const train::RankMemory memory(assemble(run.config, text, std::move(plan)), {});
  const planner::DeclaredMemory declared = planner::placed(memory.ledger(kernel_bytes(run)), memory.spill.bytes());
  const auto predicted = by_kind(declared.ledger);
  std::vector<ComparedFigure> figures;
  ComparedFigure all{"memory of training", 0, 0};
  for (std::size_t i = 0; i < kMemoryKinds.size(); ++i) {
    const ComparedFigure figure{std::string(name_of(kMemoryKinds[i])), static_cast<double>(predicted[i]),
                                static_cast<double>(run.resources.taken[i])};
    all.predicted += figure.predicted;
    all.measured += figure.measured;
    if (figure.predicted > 0 || figure.measured > 0) figures.push_back(figure);
  }
  const auto disk = static_cast<double>(declared.disk), on_disk = static_cast<double>(run.resources.disk);
  if (disk > 0 || on_disk > 0) figures.push_back({"on a disk", disk, on_disk});
  figures.push_back(all);
  return figures;
}

/// By kind of operation, where there is something of it on either side; a message has two ends.
std::vector<ComparedFigure> compared_waiting(comm::CollectiveSeconds predicted, comm::CollectiveSeconds measured) {
  using comm::Collective;
  std::vector<ComparedFigure> figures;
  if (std::ranges::all_of(measured, [](double seconds) { return seconds == 0; })) return figures;
  constexpr auto send = static_cast<std::size_t>(Collective::send), receive = static_cast<std::size_t>(Collective::receive);
  measured[receive] += std::exchange(measured[send], 0);
  for (std::size_t kind = 0; kind < comm::kCollectives; ++kind) {
    if (predicted[kind] == 0 && measured[kind] == 0) continue;
    const std::string_view name = kind == receive ? "messages" : comm::name_of(static_cast<Collective>(kind));
    figures.push_back({fmt::format("in {}", name), predicted[kind], measured[kind]});
  }
  return figures;
}

std::vector<ComparedFigure> compared_seconds(const StepSeconds& measured, const planner::Work& work,
                                             const planner::Candidate& candidate) {
  const layout::ParallelPlan& plan = candidate.plan;
  const std::vector<layout::PassSeconds> stages = planner::stage_seconds(work, candidate);
  double forward = 0, backward = 0;
  const layout::StageMap map = layout::stage_map(plan);
  for (const int stage : map.stages_of(0)) {
    const layout::PassSeconds& pass = stages[static_cast<std::size_t>(stage)];
    forward += plan.microbatches * pass.forward;
    backward += plan.microbatches * (pass.input_backward + pass.weight_backward);
  }
  const planner::StepTime time = planner::simulated_time(work, candidate);
  std::vector<ComparedFigure> figures{{"forward", forward, measured.forward},
                                      {"backward", backward, measured.backward},
                                      {"waiting for gradients", time.replicas, measured.exposed},
                                      {"update", time.optimizer, measured.update}};
  if (plan.pp > 1) {
    const layout::Timeline timeline = planner::simulated(work, candidate);
    figures.push_back({"bubble", bubble(timeline) * timeline.makespan, measured.bubble});
  }
  const std::vector<ComparedFigure> waiting = compared_waiting(waiting_by_kind(work, candidate, time), measured.waited);
  figures.insert(figures.end(), waiting.begin(), waiting.end());
  figures.push_back({"step", time.total(), measured.step});
  return figures;
}

}  // namespace

planner::System system_of(const RunConfig& config, const planner::System& of) {
  planner::System system = dtype_of(config) == DType::f32 ? planner::in_f32(of) : of;
  if (!config.parallel.overlap) {
    system.hides_reductions = false;
    system.hidden_sums = planner::System::HiddenSums::none;
  }
  return system;
}

RunWork work_of(const MeasuredRun& run, const planner::Machine& machine) {
  const planner::Work work(model_config(run.config, run.resources.vocabulary), run.config.model.block_size, machine,
                           system_of(run.config));
  return {work, candidate_of(run.config, work, run.resources.device == "cpu")};
}

RunComparison compare(const MeasuredRun& run, const planner::Machine& machine) {
  const auto [work, candidate] = work_of(run, machine);
  return {.layout = layout::describe(candidate.plan),
          .memory = compared_memory(run, candidate.plan),
          .seconds = compared_seconds(run.seconds, work, candidate)};
}

}  // namespace lockstep::app
