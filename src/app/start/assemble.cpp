#include "app/start/assemble.h"

#include <fmt/format.h>

#include <optional>
#include <utility>

#include "app/start/memory_limit.h"
#include "app/start/plan.h"
#include "app/start/training_data.h"
#include "layout/mesh.h"
#include "train/audit/audit.h"
#include "train/engine.h"
#include "train/sample.h"

namespace lockstep::app {
namespace {

train::TrainedModel trained_model(const RunConfig& config, const TextFacts& text) {
  return {.model = model_config(config, text.vocabulary),
          .decay = config.optimizer.decay,
          .weights = {.type = dtype_of(config), .master = config.optimizer.master_weights},
          .optimizer = {.name = config.optimizer.name,
                        .beta1 = static_cast<float>(config.optimizer.beta1),
                        .beta2 = static_cast<float>(config.optimizer.beta2),
                        .eps = static_cast<float>(config.optimizer.eps),
                        .momentum = static_cast<float>(config.optimizer.momentum),
                        .weight_decay = static_cast<float>(config.optimizer.weight_decay),
                        .moments = moments_of(config),
                        .rounding = config.optimizer.rounding},
          .grad_clip = static_cast<float>(config.optimizer.grad_clip),
          .samples = config.model.batch_size,
          .positions = config.model.block_size,
          .document_end = text.document_end,
          .seed = seed_of(config),
          .objective = {.kind = config.train.objective, .beta = config.dpo.beta, .label_smoothing = config.dpo.label_smoothing}};
}

/// Declares everything that a rank which trains will have, and takes nothing. Collective over the ranks that train.
Ledger declared_memory(const RunConfig& config, const train::EngineConfig& settings, const Roles& roles, Session& session,
                       ops::Ops& ops) {
  Runtime& runtime = session.runtime();
  const train::Engine engine(settings, runtime, ops, roles.group(), roles.updater());
  train::TextSampler text(engine.share());
  Arena sampling("sampling", MemoryKind::workspace), cache("sampling_cache", MemoryKind::workspace);
  text.declare(sampling, cache);
  Ledger ledger = engine.ledger();
  ledger.add(MemoryKind::data, "batches", TrainingData::bytes(config, settings, session, engine.groups().data()), {});
  for (const Arena* arena : {&sampling, &cache}) arena->enter(ledger, runtime.device());
  return ledger;
}

void demand_audit(const train::EngineConfig& engine) {
  if (engine.audit == 0) return;
  if (const std::optional<Problem> problem = train::audit_obstacle(engine)) {
    throw UserError(fmt::format("train.audit = {}: {}", engine.audit, problem->message),
                    fmt::format("train.audit=0, or {}", problem->remedy));
  }
}

}  // namespace

TextFacts unread_text(const RunConfig& config, std::int64_t vocabulary) {
  TextFacts text{.vocabulary = vocabulary};
  if (config.data.documents) text.document_end = 0;
  return text;
}

train::EngineConfig assemble(const RunConfig& config, const TextFacts& text, layout::ParallelPlan plan,
                             std::optional<train::ParameterServers> servers) {
  const bool copies = makes_copies(config), one_host = plan.ranks_per_host == plan.ranks();
  return train::assemble(trained_model(config, text),
                         {.plan = std::move(plan),
                          .servers = servers,
                          .gradients = {.bucket_bytes = config.parallel.bucket_bytes, .overlap = config.parallel.overlap},
                          .offload = {.folder = config.memory.nvme_path.value_or(".")}},
                         {.saves_beside = config.checkpoint.async.value_or(false) || copies,
                          .copied_pieces = !copies    ? 0
                                           : one_host ? 2
                                                      : 4,  // of two copies, one of which is in the making
                          .audit = config.train.audit,
                          .traced_steps = config.log.trace ? config.log.trace_steps : 0});
}

AssembledRank assemble(const RunConfig& config, const TextFacts& text, const Roles& roles, Session& session, ops::Ops& ops) {
  const auto with = [&](const layout::ParallelPlan& plan) {
    train::EngineConfig engine = assemble(config, text, plan, roles.servers());
    demand_audit(engine);
    Ledger memory =
        roles.serves() ? roles.server_memory(engine, session, ops) : declared_memory(config, engine, roles, session, ops);
    return AssembledRank{std::move(engine), std::move(memory)};
  };
  if (roles.serves()) return with({.microbatches = static_cast<int>(config.optimizer.gas)});
  const Device device = session.runtime().device();
  layout::ParallelPlan plan = plan_of(config, model_config(config, text.vocabulary), roles.group(), device);
  AssembledRank rank = with(plan);
  const layout::Coordinates at = layout::Mesh(plan).coordinates(roles.group().rank());
  plan.kept = places_left({config, rank.engine, at, device, rank.memory}, session.world());
  return plan.kept > 0 ? with(plan) : std::move(rank);
}

}  // namespace lockstep::app
