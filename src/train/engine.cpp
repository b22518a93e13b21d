#include "train/engine.h"

#include <algorithm>
#include <functional>

#include "base/timer.h"
#include "model/attention/rotation.h"
#include "model/canonical.h"
#include "model/initialise.h"
#include "parallel/context/split_positions.h"
#include "train/matched_lists.h"
#include "train/replicas.h"

namespace lockstep::train {

using ops::StepScalars;

namespace {

// Whether the passes of every step are the same kernels on the same memory, and wait for nothing: no messages, moves or masks of
// dropout.
bool passes_are_alike(const EngineConfig& config, const parallel::ParameterStore& parameters) {
  const layout::ParallelPlan& plan = config.plan;
  const auto on_device = [](const layout::Placement& of) { return of.tier == layout::Tier::device; };
  return plan.ranks() == 1 && !config.servers && config.model.dropout == 0 && !parameters.waits() && on_device(plan.gradients) &&
         on_device(plan.optimizer) && plan.activations == layout::Tier::device;
}

bool splits_by_documents(const EngineConfig& config) {
  return config.document_end && config.plan.cp > 1 && parallel::splits_by_documents(config.plan.context);
}

PipelineSeconds pipeline_seconds(const ListSeconds& list) {
  double passes = 0;
  for (const ChunkSeconds& chunk : list.chunks) passes += chunk.all();
  return {.all = list.all, .waiting = std::max(0.0, list.all - passes)};
}

}  // namespace

Engine::Engine(const EngineConfig& config, Runtime& runtime, ops::Ops& ops, comm::Communicator& trainers,
               const UpdaterFactory& make_updater, const parallel::StoreFactory& make_store)
    : config_(config),
      runtime_(runtime),
      ops_(ops),
      groups_(trainers, layout::Mesh(config_.plan)),
      table_(arch::unit_table(config_.model, config_.decay)),
      memory_(config_, groups_.at(), runtime.device()),
      pieces_(ops.stream(), memory_.pieces),
      parameters_(make_store(memory_.parameters, groups_, ops.stream())),
      updater_(make_updater({config_, ops, *parameters_, groups_, memory_.updater, pieces_})),
      audited_(make_audited()),
      boundary_(parallel::make_boundary(groups_)),
      reading_boundary_(parallel::make_reading_boundary(groups_)),
      reading_attention_(parallel::make_local_attention()),
      reading_sums_(model::make_reading_sums(config_.model, memory_.part.dims, config_.plan.canonical)),
      training_(context_of(*boundary_, *memory_.attention, *memory_.sums)),
      reading_(context_of(*reading_boundary_, *reading_attention_, *reading_sums_)),
      stages_(model::make_stages(training_, gradients(), memory_.model)),
      document_split_(config_.plan.cp),
      parts_(splits_by_documents(config_) ? static_cast<std::size_t>(config_.plan.cp * config_.plan.microbatches) : 0),
      runner_(memory_.part.actions, memory_.model, stages_,
              {.group = &groups_.pipeline(),
               .chunks = memory_.part.stages.neighbours_of(groups_.at().pp),
               .head = memory_.part.stages.last_rank()},
              {groups_.at().cp, config_.plan.cp, parts_}),
      order_(accesses(memory_.part.actions)),
      brought_(static_cast<std::size_t>(config_.plan.microbatches)),
      alike_each_step_(passes_are_alike(config_, *parameters_)) {
  if (audited_) {
    audit_.emplace(Audit::Parts{config_, memory_.audit, groups_, *audited_});
    std::vector<layout::Action> first = memory_.part.actions;
    std::erase_if(first, [](const layout::Action& action) { return action.microbatch.value > 0; });
    order_again_ = accesses(first);
  }
  if (auto loss = make_sample_loss(config_.objective))
    judge_.emplace(std::move(loss), memory_.judged, config_.samples, config_.positions, config_.plan.microbatches, ops.stream());
  if (config_.plan.canonical) ops.take_sum_grids();
  memory_.attention->connect(groups_.of(layout::GroupRole::context));
  memory_.sums->connect(ops, groups_.of(layout::GroupRole::context));
}

model::Context Engine::context_of(parallel::Boundary& boundary, parallel::ContextAttention& attention, model::Sums& sums) {
  return {.config = config_.model,
          .dims = memory_.part.dims,
          .ops = ops_,
          .parameters = *parameters_,
          .boundaries = parallel::Boundaries::all(boundary),
          .attention = attention,
          .sums = sums,
          .angles = memory_.angles,
          .seed = config_.seed,
          .leases = arch::lease_rule(config_.plan, config_.weights.type),
          .adapters = arch::adapter_sites(config_.model, memory_.part.dims)};
}

Ledger Engine::commit() {
  Ledger taken = memory_.commit(runtime_, groups_.all().window(runtime_.memory()));
  taken.add(MemoryKind::workspace, "kernels", ops_.workspace_bytes(), {});
  model::compute_angles(training_);
  memory_.spill.open(config_.offload, ops_.stream());
  return taken;
}

// Also compares a tied matrix, which is on the first stage and on the last.
void Engine::check_state() {
  state().check_copies();
  check_tensor_ranks();
  if (!config_.model.tied || groups_.pipeline().size() == 1) return;
  parallel::StateHash hash(&pieces_);
  state().for_each({.slots = true}, [&](const parallel::StateRange& range) {
    if (range.unit != memory_.part.map.tied) return;
    hash.add(range.master);
    for (const Tensor& slot : range.slots) hash.add(slot);
  });
  hash.demand_alike(groups_.pipeline(), memory_.part.embedding || memory_.part.head);
}

void Engine::match_ranks() const {
  demand_matching_lists(
      {memory_.part, order_,
       parallel::gradient_buckets(memory_.part.units, memory_.updater.gradients.order, config_.gradients.bucket_bytes)},
      groups_);
}

void Engine::initialise() { model::initialise(ops_, state(), table_, config_.seed, memory_.drawn); }

void Engine::check_tensor_ranks() {
  // Tensor ranks hold the same elements only where state is not cut over replicas.
  if (groups_.tensor().size() == 1 || !memory_.part.cut.whole()) return;
  parallel::StateHash hash(&pieces_);
  state().for_each({}, [&](const parallel::StateRange& range) {
    const layout::Unit& unit = state().units()[static_cast<std::size_t>(range.unit.value)];
    for (std::size_t p = 0; p < unit.parameters.size(); ++p) {
      const layout::PlacedParameter& placed = unit.parameters[p];
      if (placed.info.rule.axis >= 0) continue;
      const layout::Range part = layout::overlap({placed.offset, placed.shape().elements()}, range.range);
      if (part.count == 0) continue;
      // Tensor ranks hold units of different sizes, so ranges of state that is brought may cut a parameter elsewhere on each.
      const std::int64_t number = (static_cast<std::int64_t>(range.unit.value) << 8) + static_cast<std::int64_t>(p);
      hash.add_part(range.master.flat(part.first - range.range.first, part.count), (number << 40) + part.first - placed.offset);
    }
  });
  hash.demand_alike(groups_.tensor());
}

std::unique_ptr<parallel::AuditedGradients> Engine::make_audited() {
  if (config_.audit == 0) return nullptr;
  return std::make_unique<parallel::AuditedGradients>(updater_->gradients(), memory_.audit.gradients, memory_.part.units,
                                                      memory_.part.map, ops_);
}

std::vector<layout::Access> Engine::accesses(const std::vector<layout::Action>& actions) const {
  return layout::access_order(
      actions, model::chunk_parts(lease_parts(config_, memory_.part), memory_.part.chunks, config_.plan.recompute));
}

std::unique_ptr<Updater> Engine::make_replicas(const UpdaterParts& parts) {
  ensure(!parts.config.servers, "with parameter servers there is an updater of workers");
  return std::make_unique<Replicas>(parts);
}

StepResult Engine::step(std::span<const data::Batch> batches, std::int64_t target_count, std::int64_t step,
                        double learning_rate) {
  ensure(static_cast<int>(batches.size()) == config_.plan.microbatches, "a step has the micro-batches it was declared for");
  // One loss: the sum over all tokens of all ranks, divided once by the global number of targets (numerics.md section 2).
  const std::int64_t targets = updater_->begin(step, target_count);
  memory_.scalars[StepScalars::loss_scale] = 1.0F / static_cast<float>(std::max<std::int64_t>(targets, 1));
  upload(ops_.stream(), memory_.scalars.one(StepScalars::loss_scale));
  const bool audits = audit_ && audit_->due(step);
  if (audits) {
    audit_->demand_alike(state(), step);
    do_again(batches.front(), step, false);
    audited_->listen(parallel::AuditedGradients::Passes::own, batches.front().tokens);
  }
  clear_losses();
  if (judge_) judge_->begin(batches, memory_.scalars[StepScalars::loss_scale]);
  for (const data::Batch& batch : batches) updater_->gradients().expect(batch.tokens);

  const parallel::SpillTraffic before = memory_.spill.traffic();
  const comm::Traffic exchanged = groups_.all().traffic();
  parameters_->begin(order_);
  const PassTimes passes = this->passes(bring(batches), step);
  const double start = now_seconds();
  parameters_->begin({});
  if (audits) demand_alike(batches.front(), step);
  StepResult result;
  result.targets = targets;
  const std::optional<StepJudge::Judged> judged = this->judged();
  if (judged) result.figures = judged->figures;
  const ScopedSpan span(spans_, SpanKind::phase, "sums, norm and update");
  updater_->finish({.step = step, .learning_rate = learning_rate, .loss_sum = judged ? judged->loss : loss_sum()},
                   memory_.scalars, result);
  result.forward_seconds = passes.forward_seconds;
  result.update_seconds = now_seconds() - start;
  result.backward_seconds = passes.backward_seconds;
  if (memory_.spill.used()) result.offload = memory_.spill.traffic() - before;
  result.exchanged = groups_.all().traffic() - exchanged;
  if (groups_.pipeline().size() > 1) result.pipeline = pipeline_seconds(runner_.seconds());
  return result;
}

PassTimes Engine::passes(std::span<const data::Batch> batches, std::int64_t step) {
  if (!alike_each_step_ || judge_ || spans_ != nullptr) return runner_.run(batches, step, objective_of_step());
  PassTimes times;
  const auto run = [&] { times = runner_.run(batches, step, objective_of_step()); };
  ops_.repeat(kept_passes_, std::ref(run));
  return times;
}

StepObjective Engine::objective_of_step() {
  return {memory_.losses.device, memory_.scalars.on_device()[StepScalars::loss_scale], memory_.sums->sample_ranges(),
          judge_ ? &*judge_ : nullptr};
}

void Engine::do_again(const data::Batch& own, std::int64_t step, bool second) {
  const data::Batch& other = audit_->other(own, step, second);
  if (judge_) judge_->begin({&other, 1}, memory_.scalars[StepScalars::loss_scale]);
  parameters_->begin(order_again_);
  runner_.run(bring({&other, 1}), step, objective_of_step());
  parameters_->begin({});
  audit_->done_again(second);
  updater_->gradients().begin(config_.plan.microbatches);  // rows of a tied matrix are in use
}

void Engine::demand_alike(const data::Batch& own, std::int64_t step) {
  if (audit_->alike(step)) return;
  if (config_.plan.dp > 2) {
    updater_->gradients().finish();  // what is under way comes to its end
    updater_->gradients().begin(config_.plan.microbatches);
    do_again(own, step, true);
  }
  audit_->fail(step);
}

void Engine::observe(SpanLog& spans) {
  const Tensor& room = memory_.spans;
  spans.keep_in({reinterpret_cast<Span*>(room.data), room.bytes() / sizeof(Span)});
  spans_ = &spans;
  runner_.observe(spans);
  memory_.spill.observe(spans);
}

double Engine::evaluate(const data::Batch& batch) {
  if (judge_) {
    evaluate_samples(batch);
    return judged()->loss;
  }
  clear_losses();
  runner_.evaluate(bring({&batch, 1}).front(), memory_.part.head ? memory_.losses.device.flat(0, 1) : Tensor{});
  return loss_sum();
}

void Engine::evaluate_samples(const data::Batch& batch) {
  judge_->begin({&batch, 1}, 0);
  runner_.evaluate(bring({&batch, 1}).front(), {}, &*judge_);
}

void Engine::log_probabilities(const data::Batch& batch, std::span<double> out) {
  ensure(judge_.has_value(), "samples are judged whole");
  evaluate_samples(batch);
  std::ranges::fill(out, 0.0);
  if (tells_samples()) judge_->log_probabilities(out);
}

std::optional<SampleFigures> Engine::figures() {
  const std::optional<StepJudge::Judged> judged = this->judged();
  return judged ? std::optional(judged->figures) : std::nullopt;
}

std::optional<StepJudge::Judged> Engine::judged() {
  if (!judge_) return std::nullopt;
  if (tells_samples()) return judge_->judged(*memory_.sums);
  return judge_->nothing();
}

std::span<const data::Batch> Engine::bring(std::span<const data::Batch> batches) {
  const bool windows = arch::has_window(config_.model, config_.positions);
  if (config_.document_end) settle(ops_.stream(), memory_.starts);
  if (windows) settle(ops_.stream(), memory_.windows);
  for (std::size_t m = 0; m < batches.size(); ++m) {
    const data::Batch& batch = batches[m];
    data::Batch& brought = brought_[m] = batch;
    const std::int64_t all = batch.samples * batch.positions,
                       first = static_cast<std::int64_t>(m) * config_.samples * config_.positions;
    if (config_.document_end) {
      const Mirror starts = memory_.starts.flat(first, all);
      find_starts(starts, batch);
      brought.starts = starts.device.reshape({batch.samples, batch.positions});
      if (!parts_.empty()) {
        const auto ranks = static_cast<std::size_t>(config_.plan.cp);
        document_split_.split(std::span(parts_).subspan(m * ranks, ranks), batch.positions,
                              elements<const std::int32_t>(starts.host));
      }
    }
    if (windows) {
      const Mirror begins = memory_.windows.flat(first, all);
      std::span<const std::int32_t> starts;
      if (config_.document_end) starts = elements<const std::int32_t>(memory_.starts.flat(first, all).host);
      ops::find_window_starts(elements<std::int32_t>(begins.host), starts, batch.positions, config_.model.window);
      upload(ops_.stream(), begins);
      brought.window_starts = begins.device.reshape({batch.samples, batch.positions});
    }
    const ops::Positions own = own_positions(batch, m), whole{0, batch.positions};
    const auto take = [&](const Tensor& buffer, const ops::Positions& positions, const Tensor& from) {
      const std::int64_t count = batch.samples * positions.count();
      const Tensor place = buffer.flat(static_cast<std::int64_t>(m) * count, count);  // behind those before, which are as large
      bring(place, from, positions, batch);
      return place;
    };
    if (memory_.part.embedding) {
      brought.tokens = take(memory_.tokens, own, batch.tokens);
      if (memory_.sums->step_ids) take(memory_.sums->step_ids, whole, batch.tokens);
    }
    if (memory_.part.head) brought.targets = take(memory_.targets, memory_.sums->samples.divided() ? whole : own, batch.targets);
  }
  return std::span(brought_).first(batches.size());
}

ops::Positions Engine::own_positions(const data::Batch& batch, std::size_t m) const {
  const int rank = groups_.at().cp, ranks = config_.plan.cp;
  if (parts_.empty()) return parallel::split_positions(batch.positions, rank, ranks);
  return parts_[m * static_cast<std::size_t>(ranks) + static_cast<std::size_t>(rank)];
}

void Engine::bring(const Tensor& to, const Tensor& from, const ops::Positions& own, const data::Batch& batch) {
  if (own.count() == batch.positions) return copy(ops_.stream(), to, from);
  parallel::for_runs(own, batch.positions, batch.samples, [&](std::int64_t all, std::int64_t mine, std::int64_t count) {
    copy(ops_.stream(), to.flat(mine, count), from.flat(all, count));
  });
}

void Engine::find_starts(const Mirror& to, const data::Batch& batch) {
  const std::span<const std::int32_t> tokens = elements<const std::int32_t>(batch.tokens);
  const std::span<std::int32_t> starts = elements<std::int32_t>(to.host);
  for (std::size_t i = 0; i < starts.size(); ++i) {
    const auto position = static_cast<std::int32_t>(static_cast<std::int64_t>(i) % batch.positions);
    const bool begins = position == 0 || tokens[i - 1] == *config_.document_end;
    starts[i] = begins ? position : starts[i - 1];
  }
  upload(ops_.stream(), to);
}

void Engine::clear_losses() {
  if (!memory_.part.head) return;
  std::ranges::fill(elements<double>(memory_.losses.host), 0.0);
  upload(ops_.stream(), memory_.losses);
}

double Engine::loss_sum() {
  if (!memory_.part.head) return 0;
  download(ops_.stream(), memory_.losses);
  return memory_.sums->total(elements<double>(memory_.losses.host));
}

}  // namespace lockstep::train
