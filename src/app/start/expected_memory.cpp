#include "app/start/expected_memory.h"

#include "app/start/memory_limit.h"
#include "app/start/training_data.h"
#include "planner/memory.h"
#include "train/engine.h"
#include "train/memory/rank_memory.h"
#include "train/sample.h"

namespace lockstep::app {
namespace {

Ledger declared(const TrainingNeeds& needs) {
  Runtime& runtime = needs.session.runtime();
  const train::Engine engine(needs.settings, runtime, needs.session.ops(), needs.groups, needs.updater);
  train::TextSampler text(engine.share());
  Arena sampling("sampling", MemoryKind::workspace), cache("sampling_cache", MemoryKind::workspace);
  text.declare(sampling, cache);
  Ledger ledger = engine.ledger();
  const std::int64_t batches = TrainingData::bytes(needs.config, needs.settings, needs.session, needs.groups.data());
  ledger.add(MemoryKind::data, "batches", batches, {});
  for (const Arena* arena : {&sampling, &cache}) arena->enter(ledger, runtime.device());
  return ledger;
}

}  // namespace

Ledger expected_memory(const TrainingNeeds& needs) {
  Ledger ledger = declared(needs);
  const RankNeeds needed{needs.config, needs.settings, needs.groups.at(), needs.session.runtime().device(), ledger};
  needs.settings.plan.kept = places_left(needed, needs.session.world());
  return needs.settings.plan.kept > 0 ? declared(needs) : ledger;
}

std::int64_t disk_bytes(const train::EngineConfig& settings, const layout::Coordinates& at, const Ledger& taken) {
  return planner::placed(taken, train::RankMemory(settings, at).spill.bytes()).disk;
}

}  // namespace lockstep::app
