#include "train/engine.h"

#include <array>
#include <cmath>

#include "base/timer.h"
#include "io/checksum.h"
#include "model/initialise.h"
#include "train/pipeline_runner.h"

namespace lockstep::train {

using ops::StepScalars;

namespace {

std::optional<parallel::TiedRows> tied_rows(const EngineConfig& config, comm::Communicator& world) {
  if (!config.model.tied) return std::nullopt;
  return std::make_optional<parallel::TiedRows>(config.model.vocabulary, config.model.width,
                                                config.samples * config.positions * config.microbatches, world);
}

}  // namespace

Engine::Engine(const EngineConfig& config, Runtime& runtime, ops::Ops& ops, comm::Communicator& world)
    : config_(config),
      runtime_(runtime),
      ops_(ops),
      world_(world),
      table_(arch::unit_table(config.model, config.decay)),
      parameter_arena_("parameters", MemoryKind::parameters),
      gradient_arena_("gradients", MemoryKind::gradients),
      optimizer_arena_("optimizer", MemoryKind::optimizer),
      activation_arena_("activations", MemoryKind::activations),
      workspace_arena_("temporaries", MemoryKind::workspace),
      parameters_(arch::units_of(table_)),
      gradients_(parameters_.units(), arch::backward_order(arch::unit_map(config.model)), world, ops.elementwise(),
                 config.gradients),
      tied_rows_(tied_rows(config, world)),
      boundary_(parallel::make_identity_boundary()),
      context_{config.model, arch::whole_dims(config.model),     ops,
               parameters_,  {boundary_.get(), boundary_.get()}, {boundary_.get(), boundary_.get()},
               config.seed},
      sink_(ops),
      stage_(context_, gradients_, tied_rows_ ? &tied_rows_->table() : nullptr, sink_,
             {.samples = config.samples, .positions = config.positions, .microbatches = config.microbatches, .live = 1}),
      optimizer_(config.adamw, parameters_),
      norm_(parameters_.units(), world),
      actions_(layout::one_stage_schedule(config.microbatches)),
      order_(layout::access_order(actions_, stage_.forward_units(), stage_.backward_units())) {
  ensure(layout::peak_live_microbatches(actions_) == 1, "the stage keeps the activations of one micro-batch");
  parameters_.declare(parameter_arena_);
  gradients_.declare(gradient_arena_, config_.microbatches);
  if (tied_rows_) tied_rows_->declare(gradient_arena_, activation_arena_, workspace_arena_);
  optimizer_.declare(optimizer_arena_);
  stage_.declare(activation_arena_, workspace_arena_);
  optimizer_arena_.declare(scalars_.values, "step_scalars", Shape{StepScalars::count}, DType::f32);
}

Ledger Engine::ledger() const {
  Ledger ledger;
  for (const Arena* arena : {&parameter_arena_, &gradient_arena_, &optimizer_arena_, &activation_arena_, &workspace_arena_}) {
    arena->enter(ledger);
  }
  ledger.add(MemoryKind::workspace, "kernels", ops_.workspace_bytes(), {});
  return ledger;
}

void Engine::commit() {
  Ledger committed;
  gradient_arena_.commit(world_.window(runtime_.memory()), committed);
  for (Arena* arena : {&parameter_arena_, &optimizer_arena_, &activation_arena_, &workspace_arena_}) {
    arena->commit(runtime_.memory(), committed);
  }
}

void Engine::initialise() { model::initialise(ops_, parameters_, table_, config_.seed); }

void Engine::broadcast_state() {
  if (world_.size() == 1) return;
  std::int64_t hash = 0;
  for (std::size_t u = 0; u < parameters_.units().size(); ++u) {
    const UnitIndex index{static_cast<int>(u)};
    const Optimizer::Moments& moments = optimizer_.moments(index);
    for (const Tensor& tensor : {parameters_.shard(index).master, moments.exp_avg, moments.exp_avg_sq}) {
      world_.broadcast(tensor, 0).wait();
      const std::uint64_t sum = io::checksum({tensor.data, tensor.bytes()}, size_of(tensor.dtype), 0);
      hash = static_cast<std::int64_t>(static_cast<std::uint64_t>(hash) * 31 + sum);
    }
  }
  parameters_.updated();
  std::array<std::int64_t, 2> ends{hash, hash};
  world_.all_reduce(view(std::span<std::int64_t>(ends).first(1), Shape{1}), comm::Reduction::min).wait();
  world_.all_reduce(view(std::span<std::int64_t>(ends).last(1), Shape{1}), comm::Reduction::max).wait();
  if (ends[0] != ends[1]) throw SystemError("the ranks hold different weights or moments after rank 0 sent its own");
}

// A tied matrix: what the head and what the embedding gave are reduced apart and added once.
void Engine::add_tied_rows() {
  if (!tied_rows_) return;
  const UnitIndex tied = arch::unit_map(config_.model).tied;
  const model::WeightSet gradient(parameters_.units()[static_cast<std::size_t>(tied.value)], gradients_.shard(tied).gradient);
  tied_rows_->add_to(gradient[arch::Role::token_table], stage_.tokens(), ops_.embedding());
}

double Engine::clip(double norm) const {
  if (config_.grad_clip <= 0) return 1;
  return std::min(1.0, static_cast<double>(config_.grad_clip) / (norm + 1e-6));
}

StepResult Engine::step(std::span<const data::Batch> batches, std::int64_t target_count, std::int64_t step,
                        double learning_rate) {
  ensure(static_cast<int>(batches.size()) == config_.microbatches, "a step has the micro-batches it was declared for");
  // One loss: the sum over all tokens of all ranks, divided once by the global number of targets (numerics.md section 2).
  std::int64_t targets = target_count;
  world_.all_reduce(view(std::span(&targets, 1), Shape{1}), comm::Reduction::sum).wait();
  scalars_.host(StepScalars::loss_scale) = 1.0F / static_cast<float>(std::max<std::int64_t>(targets, 1));

  gradients_.begin(config_.microbatches);
  parameters_.begin(order_);
  const PipelineResult passes = run_actions(actions_, stage_, batches, step, scalars_[StepScalars::loss_scale]);
  const double start = now_seconds();
  gradients_.finish();
  add_tied_rows();
  parameters_.begin({});
  StepResult result;
  result.loss = passes.loss_sum;
  world_.all_reduce(view(std::span(&result.loss, 1), Shape{1}), comm::Reduction::sum).wait();
  result.loss /= static_cast<double>(std::max<std::int64_t>(targets, 1));
  result.gradient_norm = norm_(ops_.reduce(), gradients_);
  result.finite = std::isfinite(result.gradient_norm);
  const auto t = static_cast<double>(step + 1);
  scalars_.host(StepScalars::learning_rate) = static_cast<float>(learning_rate);
  scalars_.host(StepScalars::bias_correction1) = static_cast<float>(1.0 - std::pow(static_cast<double>(config_.adamw.beta1), t));
  scalars_.host(StepScalars::bias_correction2) = static_cast<float>(1.0 - std::pow(static_cast<double>(config_.adamw.beta2), t));
  scalars_.host(StepScalars::clip_factor) = result.finite ? static_cast<float>(clip(result.gradient_norm)) : 0.0F;
  scalars_.host(StepScalars::finite) = result.finite ? 1.0F : 0.0F;
  optimizer_.update(ops_.update(), gradients_, scalars_);
  result.forward_seconds = passes.forward_seconds;
  result.update_seconds = now_seconds() - start;
  result.backward_seconds = passes.backward_seconds;
  result.exposed_seconds = gradients_.exposed_seconds();
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
    const Tensor gradient = gradients_.shard(index).gradient;
    const Optimizer::Moments& moments = optimizer_.moments(index);
    for (const layout::PlacedParameter& placed : parameters_.units()[u].parameters) {
      const auto part = [&](const Tensor& flat) {
        return flat.flat(placed.offset, placed.info.shape.elements()).reshape(placed.info.shape);
      };
      all.push_back({placed.info.name, part(weights), part(gradient), part(moments.exp_avg), part(moments.exp_avg_sq)});
    }
  }
  return all;
}

}  // namespace lockstep::train
