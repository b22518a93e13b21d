#include "train/engine.h"

#include <algorithm>

#include "base/timer.h"
#include "model/initialise.h"
#include "model/rotation.h"
#include "train/pipeline_runner.h"
#include "train/replicas.h"

namespace lockstep::train {

using ops::StepScalars;

Engine::Engine(const EngineConfig& config, Runtime& runtime, ops::Ops& ops, comm::Communicator& world,
               const UpdaterFactory& make_updater)
    : config_(config),
      runtime_(runtime),
      ops_(ops),
      world_(world),
      table_(arch::unit_table(config.model, config.decay)),
      parameter_arena_(config.weights.type == DType::bf16 ? "weights bf16" : "weights fp32", MemoryKind::parameters),
      master_arena_("master weights fp32", MemoryKind::optimizer),
      gradient_arena_("gradients", MemoryKind::gradients),
      optimizer_arena_("moments", MemoryKind::optimizer),
      activation_arena_("activations", MemoryKind::activations),
      workspace_arena_("temporaries", MemoryKind::workspace),
      parameters_(arch::units_of(table_), config.weights),
      updater_(make_updater({config_, ops, parameters_, world})),
      boundary_(parallel::make_identity_boundary()),
      context_{config.model, arch::whole_dims(config.model),     ops,
               parameters_,  {boundary_.get(), boundary_.get()}, {boundary_.get(), boundary_.get()},
               config.seed},
      sink_(ops),
      stage_(context_, updater_->gradients(), updater_->embedded_rows(), sink_,
             {.samples = config.samples, .positions = config.positions, .microbatches = config.microbatches, .live = 1}),
      actions_(layout::one_stage_schedule(config.microbatches)),
      order_(layout::access_order(actions_, stage_.forward_units(), stage_.backward_units())) {
  ensure(layout::peak_live_microbatches(actions_) == 1, "the stage keeps the activations of one micro-batch");
  parameters_.declare(parameter_arena_);
  parameters_.declare_masters(master_arena_);
  updater_->declare({gradient_arena_, optimizer_arena_, activation_arena_, workspace_arena_});
  stage_.declare(activation_arena_, workspace_arena_);
  model::declare_angles(context_, workspace_arena_);
  optimizer_arena_.declare(scalars_.values, "step_scalars", Shape{StepScalars::count}, DType::f32);
}

Ledger Engine::ledger() const {
  Ledger ledger;
  for (const Arena* arena :
       {&parameter_arena_, &gradient_arena_, &optimizer_arena_, &master_arena_, &activation_arena_, &workspace_arena_}) {
    if (arena->bytes() > 0) arena->enter(ledger);
  }
  ledger.add(MemoryKind::workspace, "kernels", ops_.workspace_bytes(), {});
  return ledger;
}

void Engine::commit() {
  Ledger committed;
  gradient_arena_.commit(world_.window(runtime_.memory()), committed);
  for (Arena* arena : {&parameter_arena_, &master_arena_, &optimizer_arena_, &activation_arena_, &workspace_arena_}) {
    arena->commit(runtime_.memory(), committed);
  }
  model::compute_angles(context_);
}

void Engine::initialise() { model::initialise(ops_, parameters_, table_, config_.seed); }

std::unique_ptr<Updater> Engine::make_replicas(const UpdaterParts& parts) { return std::make_unique<Replicas>(parts); }

void Engine::broadcast_state(std::int64_t step) {
  updater_->publish_state(step);
  parameters_.updated();
}

StepResult Engine::step(std::span<const data::Batch> batches, std::int64_t target_count, std::int64_t step,
                        double learning_rate) {
  ensure(static_cast<int>(batches.size()) == config_.microbatches, "a step has the micro-batches it was declared for");
  // One loss: the sum over all tokens of all ranks, divided once by the global number of targets (numerics.md section 2).
  const std::int64_t targets = updater_->begin(step, target_count);
  scalars_.host(StepScalars::loss_scale) = 1.0F / static_cast<float>(std::max<std::int64_t>(targets, 1));

  parameters_.begin(order_);
  const PipelineResult passes = run_actions(actions_, stage_, batches, step, scalars_[StepScalars::loss_scale]);
  const double start = now_seconds();
  parameters_.begin({});
  StepResult result;
  result.targets = targets;
  updater_->finish({.step = step, .learning_rate = learning_rate, .loss_sum = passes.loss_sum, .tokens = stage_.tokens()},
                   scalars_, result);
  result.forward_seconds = passes.forward_seconds;
  result.update_seconds = now_seconds() - start;
  result.backward_seconds = passes.backward_seconds;
  return result;
}

double Engine::evaluate(const data::Batch& batch) {
  const model::Pass pass{.samples = batch.samples, .positions = batch.positions};
  return stage_.evaluate(pass, batch.tokens, batch.targets);
}

std::vector<Engine::ParameterState> Engine::state() {
  std::vector<ParameterState> all;
  for (std::size_t u = 0; u < parameters_.units().size(); ++u) {
    const UnitIndex index{static_cast<int>(u)};
    const Tensor weights = parameters_.shard(index).master;
    const Tensor gradient = updater_->gradients().shard(index).gradient;
    const Optimizer::Moments moments = updater_->moments(index);
    for (const layout::PlacedParameter& placed : parameters_.units()[u].parameters) {
      const auto part = [&](const Tensor& flat) {
        if (!flat) return Tensor{};
        return flat.flat(placed.offset, placed.info.shape.elements()).reshape(placed.info.shape);
      };
      all.push_back({placed.info.name, part(weights), part(gradient), part(moments.exp_avg), part(moments.exp_avg_sq)});
    }
  }
  return all;
}

}  // namespace lockstep::train
