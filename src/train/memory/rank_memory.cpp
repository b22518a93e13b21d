#include "train/memory/rank_memory.h"

#include "base/span_log.h"
#include "checkpoint/background_writer.h"
#include "checkpoint/copies/exchange.h"
#include "device/runtime.h"
#include "model/attention/rotation.h"
#include "model/canonical.h"
#include "tensor/host_pieces.h"

namespace lockstep::train {

namespace {

// Servers send whole masters, so with servers masters are not kept in halves.
parallel::WeightStorage kept(const EngineConfig& config) {
  parallel::WeightStorage storage = config.weights;
  storage.halves = storage.owned() != storage.type && !config.servers;
  return storage;
}

std::unique_ptr<model::Sums> make_sums(const EngineConfig& config, const RankPart& part) {
  const layout::ParallelPlan& plan = config.plan;
  if (!plan.canonical) return std::make_unique<model::Sums>(part.dims);
  return std::make_unique<model::Canonical>(config.model, part.dims,
                                            model::CanonicalSizes{.tokens = {config.samples, config.positions},
                                                                  .microbatches = plan.microbatches,
                                                                  .all_microbatches = plan.dp * plan.microbatches,
                                                                  .context_rank = part.at.cp,
                                                                  .context_ranks = plan.cp});
}

}  // namespace

RankMemory::RankMemory(const EngineConfig& config, const layout::Coordinates& at, Device device)
    : part(rank_part(config, at)),
      parameters(part.units, kept(config), config.plan, at, arch::lease_classes(lease_parts(config, part), part.map)),
      attention(parallel::make_attention(config.plan, at, config.positions)),
      sums(make_sums(config, part)),
      model(model_shape(config, part, *attention, *sums)),
      device_(device),
      parameter_arena_(config.weights.type == DType::bf16 ? "weights bf16" : "weights fp32", MemoryKind::parameters),
      gradient_arena_("gradients", MemoryKind::gradients),
      optimizer_arena_("optimizer slots", MemoryKind::optimizer),
      master_arena_(parameters.halves() ? "master weights, lower halves" : "master weights fp32", MemoryKind::optimizer),
      offload_arena_("buffers of offloaded state", MemoryKind::optimizer),
      activation_arena_("activations", MemoryKind::activations),
      workspace_arena_("temporaries", MemoryKind::workspace),
      pinned_arena_("to and from files", MemoryKind::workspace),
      host_arena_("offloaded state", MemoryKind::optimizer),
      trace_arena_("trace", MemoryKind::workspace) {
  parameters.declare(parameter_arena_, master_arena_, &spill, config.offload.range());
  updater.declare({gradient_arena_, optimizer_arena_, activation_arena_, workspace_arena_, offload_arena_}, config, part,
                  parameters, spill);
  if (config.weights.owned() != DType::f32 || (config.weights.type != DType::f32 && !part.map.trains_all())) {
    constexpr std::int64_t drawn_at_a_time = 1 << 16;
    const Arena::Mark start = workspace_arena_.mark();
    workspace_arena_.declare(drawn, "start values", Shape{drawn_at_a_time}, DType::f32);
    workspace_arena_.rewind(start);  // steps come later
  }
  model.declare(activation_arena_, workspace_arena_, config.model, part.dims, config.weights.type, &spill);
  sums->declare(gradient_arena_, workspace_arena_, config.weights.type, part.embedding, part.head);
  model::declare_angles(workspace_arena_, angles, config.model);
  spill.declare_host(host_arena_);
  HostPieces::declare(pinned_arena_, pieces, device);
  audit.declare(activation_arena_, pinned_arena_, config, part);
  if (config.saves_beside) {
    const std::int64_t least = config.copied_pieces > 0 ? checkpoint::Exchange::least_parts : 1;
    checkpoint::BackgroundWriter::declare_copies(pinned_arena_, copies, saved_bytes(config), least);
  }
  shared = config.copied_pieces * saved_bytes(config);
  if (config.traced_steps > 0) {
    const auto bytes = traced_spans(config, part) * static_cast<std::int64_t>(sizeof(Span));
    trace_arena_.declare(spans, "spans of the trace", Shape{bytes}, DType::u8);
  }
  optimizer_arena_.declare(scalars.values, "step_scalars", Shape{ops::StepScalars::count}, DType::f32);
  const Shape all_tokens{model.shape().rows.inside * config.plan.microbatches};
  const Shape all_samples{config.samples * config.plan.microbatches * config.positions};
  if (config.document_end) workspace_arena_.declare(starts, "starts of documents", all_samples, DType::i32);
  if (arch::has_window(config.model, config.positions))
    workspace_arena_.declare(windows, "starts of windows", all_samples, DType::i32);
  if (part.embedding) activation_arena_.declare(tokens, "tokens", all_tokens, DType::i32);
  if (!part.head) return;
  activation_arena_.declare(targets, "targets", Shape{model.shape().rows.judged * config.plan.microbatches}, DType::i32);
  workspace_arena_.declare(losses, "losses", Shape{std::int64_t{config.plan.microbatches} * sums->sample_ranges()}, DType::f64);
  if (make_sample_loss(config.objective)) train::declare(workspace_arena_, judged, config.samples, config.plan.microbatches);
}

// Ranks with the same part of a unit each write an equal share of it.
std::int64_t RankMemory::saved_bytes(const EngineConfig& config) const {
  const auto slots = std::ssize(make_optimizer(config.optimizer)->slots());
  const std::int64_t each =
      static_cast<std::int64_t>(size_of(config.weights.owned())) + slots * static_cast<std::int64_t>(size_of(config.slot_type()));
  std::int64_t bytes = 0;
  for (const layout::Unit& unit : part.units)
    bytes += part.cut.held(unit).count * (unit.trained ? each : static_cast<std::int64_t>(size_of(config.weights.type)));
  return bytes / part.cut.copies;
}

Ledger RankMemory::ledger(std::int64_t kernels) const {
  Ledger ledger;
  for (const Arena* arena : {&parameter_arena_, &gradient_arena_, &optimizer_arena_, &master_arena_, &offload_arena_,
                             &activation_arena_, &workspace_arena_, &pinned_arena_, &host_arena_, &trace_arena_}) {
    if (arena->bytes() > 0) arena->enter(ledger, device_);
  }
  ledger.add(MemoryKind::workspace, "kernels", kernels, {});
  enter_shared(ledger);
  return ledger;
}

void RankMemory::enter_shared(Ledger& ledger) const {
  if (shared > 0) ledger.add(MemoryKind::workspace, "copies in shared memory", shared, {});
}

Ledger RankMemory::commit(Runtime& runtime, MemorySource& window) {
  ensure(runtime.device() == device_, "memory is taken on the device that it was declared for");
  Ledger committed;
  const bool carries = model.shape().rows.carries();  // sums and rows that go to other ranks are temporaries
  gradient_arena_.commit(runtime, window, committed);
  part.cut.whole() ? parameter_arena_.commit(runtime, committed) : parameter_arena_.commit(runtime, window, committed);
  for (Arena* arena : {&master_arena_, &optimizer_arena_, &offload_arena_, &activation_arena_}) {
    if (arena->bytes() > 0) arena->commit(runtime, committed);
  }
  if (workspace_arena_.bytes() > 0) workspace_arena_.commit(runtime, carries ? window : runtime.memory(), committed);
  for (Arena* arena : {&pinned_arena_, &host_arena_}) {
    if (arena->bytes() > 0) arena->commit(runtime.memory(Space::pinned), committed);
  }
  if (trace_arena_.bytes() > 0) trace_arena_.commit(runtime.memory(Space::host), committed);
  model.elsewhere().bind();
  enter_shared(committed);  // it is taken by the first copies
  return committed;
}

}  // namespace lockstep::train
