#include "train/state.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "arch/config_json.h"
#include "checkpoint/find.h"
#include "checkpoint/retention.h"

namespace lockstep::train {
namespace {

std::vector<checkpoint::HeldTensor> weights_of(Engine& engine) {
  std::vector<checkpoint::HeldTensor> held;
  for (const Engine::ParameterState& p : engine.state()) held.push_back(checkpoint::hold_whole(p.name, p.weight));
  return held;
}

std::vector<checkpoint::HeldTensor> moments_of(Engine& engine) {
  std::vector<checkpoint::HeldTensor> held;
  for (const Engine::ParameterState& p : engine.state()) {
    held.push_back(checkpoint::hold_whole(p.name + std::string(checkpoint::first_moment_suffix), p.exp_avg));
    held.push_back(checkpoint::hold_whole(p.name + std::string(checkpoint::second_moment_suffix), p.exp_avg_sq));
  }
  return held;
}

Json optimizer_json(const EngineConfig& config) {
  Json json;
  json.set("name", "AdamW");
  json.set("beta1", static_cast<double>(config.adamw.beta1));
  json.set("beta2", static_cast<double>(config.adamw.beta2));
  json.set("eps", static_cast<double>(config.adamw.eps));
  json.set("weight_decay", static_cast<double>(config.adamw.weight_decay));
  json.set("grad_clip", static_cast<double>(config.grad_clip));
  return json;
}

/// All batches' rows of one kind, one after another.
std::vector<std::int32_t> joined(std::span<const data::Batch> batches, Tensor data::Batch::* member) {
  std::vector<std::int32_t> all;
  for (const data::Batch& batch : batches) {
    const std::span<std::int32_t> part = elements<std::int32_t>(batch.*member);
    all.insert(all.end(), part.begin(), part.end());
  }
  return all;
}

}  // namespace

checkpoint::SaveReport save_run(const io::Path& run, Engine& engine, const RunState& state, const Json& extra, cpu::Team& team) {
  const EngineConfig& config = engine.config();
  checkpoint::Manifest manifest;
  manifest.step = state.step;
  manifest.seed = config.seed;
  manifest.global_batch = engine.global_batch();
  manifest.next_sample = state.next_sample;
  manifest.tokens_seen = manifest.next_sample * config.positions;
  manifest.validation_loss = state.validation_loss;
  manifest.best_validation_loss = state.best_validation_loss;
  manifest.model = arch::to_json(config.model);
  manifest.optimizer = optimizer_json(config);
  manifest.run = extra;
  manifest.dtype = config.weights.type;
  manifest.master_is_model = config.weights.owned() == DType::f32;
  const checkpoint::SaveReport report =
      checkpoint::save(run, {.model = weights_of(engine), .optimizer = moments_of(engine)}, std::move(manifest), team);
  checkpoint::apply_retention(run / checkpoint::checkpoints_folder);
  return report;
}

RunState state_of(const checkpoint::Manifest& manifest) {
  return {manifest.step, manifest.next_sample, manifest.validation_loss, manifest.best_validation_loss};
}

void load_weights(const checkpoint::WeightSource& source, Engine& engine, cpu::Team& team) {
  source.read_model(weights_of(engine), team);
  engine.weights_changed();
}

void load_run(const checkpoint::Reader& reader, Engine& engine, cpu::Team& team) {
  if (reader.manifest().master_is_model && engine.config().weights.owned() != DType::f32) {
    throw UserError(fmt::format("{} has weights and moments in fp32: a run without master weights would go on from other ones, "
                                "rounded to bf16",
                                reader.folder().string()),
                    fmt::format("resume with optimizer.master_weights=true, or start a new run with train.init_from={}",
                                reader.folder().string()));
  }
  load_weights(reader, engine, team);
  reader.read(moments_of(engine), team);
}

void dump_step(const io::Path& file, Engine& engine, std::span<const data::Batch> batches, double loss) {
  std::vector<std::int32_t> tokens = joined(batches, &data::Batch::tokens);
  std::vector<std::int32_t> targets = joined(batches, &data::Batch::targets);
  const std::int64_t positions = engine.config().positions;
  const Shape shape{static_cast<std::int64_t>(tokens.size()) / positions, positions};
  NamedTensors all{{"tokens", view(std::span(tokens), shape)},
                   {"targets", view(std::span(targets), shape)},
                   {"loss", view(std::span(&loss, 1), Shape{1})}};
  for (const Engine::ParameterState& p : engine.state()) {
    all.push_back({"gradient." + p.name, p.gradient});
    all.push_back({"weight." + p.name, p.weight});
  }
  checkpoint::write_tensors(file, all);
}

}  // namespace lockstep::train
