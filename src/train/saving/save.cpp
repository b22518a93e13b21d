#include "train/saving/save.h"

#include "arch/config_json.h"
#include "checkpoint/find.h"
#include "checkpoint/retention.h"
#include "checkpoint/room.h"
#include "comm/agreement.h"
#include "train/saving/named_state.h"

namespace lockstep::train {
namespace {

// What a checkpoint says of how it was trained.
Json optimizer_json(const EngineConfig& config) {
  Json json = make_optimizer(config.optimizer)->describe();
  json.set("grad_clip", static_cast<double>(config.grad_clip));
  return json;
}

Json layout_json(const layout::ParallelPlan& plan) {
  return Json::Object{{"dp", plan.dp}, {"tp", plan.tp}, {"cp", plan.cp}, {"pp", plan.pp}, {"sequence", plan.sequence}};
}

}  // namespace

void demand_room(const io::Path& run, Engine& engine) {
  comm::together(engine.groups().all(), [&] {
    if (engine.groups().lead()) checkpoint::demand_room(run, file_tables(engine));
  });
}

checkpoint::Manifest manifest_of(Engine& engine, const RunState& state, const Json& extra) {
  const EngineConfig& config = engine.config();
  checkpoint::Manifest manifest;
  manifest.updates = engine.state().updates();
  manifest.seed = config.seed;
  manifest.global_batch = engine.global_batch();
  manifest.next_sample = state.next_sample;
  manifest.tokens_seen = manifest.next_sample * config.positions;
  manifest.validation_loss = state.validation_loss;
  manifest.best_validation_loss = state.best_validation_loss;
  manifest.model = arch::to_json(config.model);
  manifest.optimizer = optimizer_json(config);
  manifest.run = extra;
  manifest.layout = layout_json(engine.groups().plan());
  manifest.dtype = config.weights.type;
  manifest.master_is_model = config.weights.owned() == DType::f32;
  return manifest;
}

std::vector<checkpoint::FileTable> file_tables(Engine& engine) {
  const parallel::TrainingState& state = engine.state();
  const EngineConfig& config = engine.config();
  return {{std::string(checkpoint::model_file), weight_tensors(config)},
          {std::string(checkpoint::optimizer_file), trained_tensors(config, state.slot_type(), slot_suffixes(state))}};
}

checkpoint::SaveReport save_run(const io::Path& run, Engine& engine, const RunState& state, const Json& extra, Team& team) {
  comm::Communicator& ranks = engine.groups().all();
  parallel::TrainingState& kept = engine.state();
  const std::vector<std::string> suffixes = slot_suffixes(kept);
  checkpoint::Writer writer(ranks, run, state.step, file_tables(engine));
  const auto write = [&](const std::vector<checkpoint::HeldTensor>& held) { writer.write(held, team); };
  kept.for_each({.slots = true}, [&](const parallel::StateRange& range) {
    hold_own(engine.pieces(), kept, range, suffixes, {.slots = true}, write);
  });
  const checkpoint::SaveReport report = writer.commit(manifest_of(engine, state, extra));
  comm::together(ranks, [&] {
    if (ranks.rank() == 0) checkpoint::apply_retention(run / checkpoint::checkpoints_folder);
  });
  return report;
}

}  // namespace lockstep::train
