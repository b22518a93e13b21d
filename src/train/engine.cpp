#include "train/engine.h"

#include <algorithm>
#include <numeric>

#include "base/timer.h"
#include "model/initialise.h"
#include "model/rotation.h"
#include "train/replicas.h"

namespace lockstep::train {

using ops::StepScalars;

Engine::Engine(const EngineConfig& config, Runtime& runtime, ops::Ops& ops, const parallel::Groups& groups,
               const UpdaterFactory& make_updater, const parallel::StoreFactory& make_store)
    : config_(config),
      runtime_(runtime),
      ops_(ops),
      groups_(groups),
      table_(arch::unit_table(config.model, config.decay)),
      parameter_arena_(config.weights.type == DType::bf16 ? "weights bf16" : "weights fp32", MemoryKind::parameters),
      master_arena_("master weights fp32", MemoryKind::optimizer),
      gradient_arena_("gradients", MemoryKind::gradients),
      optimizer_arena_("moments", MemoryKind::optimizer),
      activation_arena_("activations", MemoryKind::activations),
      workspace_arena_("temporaries", MemoryKind::workspace),
      pinned_arena_("to and from files", MemoryKind::workspace),
      pieces_(ops.stream(), runtime.device()),
      weights_(arch::units_of(table_), config.weights, config.plan),
      parameters_(make_store(weights_, groups)),
      updater_(make_updater({config_, ops, *parameters_, groups})),
      boundary_(parallel::make_local_boundary()),
      attention_(parallel::make_local_attention()),
      context_{config.model,
               arch::whole_dims(config.model),
               ops,
               *parameters_,
               parallel::Boundaries::all(*boundary_),
               *attention_,
               config.seed,
               config.plan.leases},
      sink_(ops),
      schedule_(rank_schedule(config)),
      memory_(model_shape(config, schedule_, *attention_)),
      stages_(model::make_stages(context_, updater_->gradients(), sink_, memory_)),
      runner_(schedule_.actions, memory_, stages_),
      order_(layout::access_order(
          schedule_.actions,
          model::chunk_parts(arch::part_map(config.model, weights_.units, config.plan.leases), schedule_.chunks))),
      brought_(static_cast<std::size_t>(config.plan.microbatches)) {
  ensure(groups.mesh().ranks() == config.plan.ranks(), "the groups are those of the plan");
  weights_.declare(parameter_arena_, master_arena_);
  updater_->declare({gradient_arena_, optimizer_arena_, activation_arena_, workspace_arena_});
  if (config.weights.owned() != DType::f32) {
    constexpr std::int64_t drawn_at_a_time = 1 << 16;
    const Arena::Mark start = workspace_arena_.mark();
    workspace_arena_.declare(drawn_, "start values", Shape{drawn_at_a_time}, DType::f32);
    workspace_arena_.rewind(start);  // steps come later
  }
  memory_.declare(activation_arena_, workspace_arena_, config.model, context_.dims, config.weights.type);
  model::declare_angles(context_, workspace_arena_);
  pieces_.declare(pinned_arena_);
  optimizer_arena_.declare(scalars_.values, "step_scalars", Shape{StepScalars::count}, DType::f32);
  const std::int64_t tokens = config.samples * config.positions * config.plan.microbatches;
  activation_arena_.declare(tokens_, "tokens", Shape{tokens}, DType::i32);
  activation_arena_.declare(targets_, "targets", Shape{tokens}, DType::i32);
  workspace_arena_.declare(losses_, "losses", Shape{config.plan.microbatches}, DType::f64);
}

Ledger Engine::ledger() const {
  Ledger ledger;
  for (const Arena* arena : {&parameter_arena_, &gradient_arena_, &optimizer_arena_, &master_arena_, &activation_arena_,
                             &workspace_arena_, &pinned_arena_}) {
    if (arena->bytes() > 0) arena->enter(ledger, runtime_.device());
  }
  ledger.add(MemoryKind::workspace, "kernels", ops_.workspace_bytes(), {});
  return ledger;
}

void Engine::commit() {
  Ledger committed;
  gradient_arena_.commit(groups_.all().window(runtime_.memory()), committed);
  for (Arena* arena : {&parameter_arena_, &master_arena_, &optimizer_arena_, &activation_arena_, &workspace_arena_}) {
    arena->commit(runtime_, committed);
  }
  if (pinned_arena_.bytes() > 0) pinned_arena_.commit(runtime_.memory(Space::pinned), committed);
  model::compute_angles(context_);
}

void Engine::initialise() { model::initialise(ops_, state(), table_, config_.seed, drawn_); }

std::unique_ptr<Updater> Engine::make_replicas(const UpdaterParts& parts) { return std::make_unique<Replicas>(parts); }

StepResult Engine::step(std::span<const data::Batch> batches, std::int64_t target_count, std::int64_t step,
                        double learning_rate) {
  ensure(static_cast<int>(batches.size()) == config_.plan.microbatches, "a step has the micro-batches it was declared for");
  // One loss: the sum over all tokens of all ranks, divided once by the global number of targets (numerics.md section 2).
  const std::int64_t targets = updater_->begin(step, target_count);
  scalars_[StepScalars::loss_scale] = 1.0F / static_cast<float>(std::max<std::int64_t>(targets, 1));
  upload(ops_.stream(), scalars_.one(StepScalars::loss_scale));
  clear_losses();
  for (const data::Batch& batch : batches) updater_->gradients().expect(batch.tokens);

  parameters_->begin(order_);
  const PassTimes passes = runner_.run(bring(batches), step, {losses_.device, scalars_.on_device()[StepScalars::loss_scale]});
  const double start = now_seconds();
  parameters_->begin({});
  StepResult result;
  result.targets = targets;
  updater_->finish({.step = step, .learning_rate = learning_rate, .loss_sum = loss_sum()}, scalars_, result);
  result.forward_seconds = passes.forward_seconds;
  result.update_seconds = now_seconds() - start;
  result.backward_seconds = passes.backward_seconds;
  return result;
}

double Engine::evaluate(const data::Batch& batch) {
  clear_losses();
  runner_.evaluate(bring({&batch, 1}).front(), losses_.device.flat(0, 1));
  return loss_sum();
}

std::span<const data::Batch> Engine::bring(std::span<const data::Batch> batches) {
  std::int64_t first = 0;
  for (std::size_t m = 0; m < batches.size(); ++m) {
    const std::int64_t count = batches[m].tokens.elements();
    data::Batch& brought = brought_[m] = batches[m];
    brought.tokens = tokens_.flat(first, count);
    brought.targets = targets_.flat(first, count);
    copy(ops_.stream(), brought.tokens, batches[m].tokens);
    copy(ops_.stream(), brought.targets, batches[m].targets);
    first += count;
  }
  return std::span(brought_).first(batches.size());
}

void Engine::clear_losses() {
  std::ranges::fill(elements<double>(losses_.host), 0.0);
  upload(ops_.stream(), losses_);
}

double Engine::loss_sum() {
  download(ops_.stream(), losses_);
  const std::span<const double> losses = elements<const double>(losses_.host);
  return std::accumulate(losses.begin(), losses.end(), 0.0);
}

}  // namespace lockstep::train
