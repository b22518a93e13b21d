#include "train/replicas.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "io/checksum.h"
#include "model/weights.h"

namespace lockstep::train {

void broadcast_checked(comm::Communicator& group, std::span<const Tensor> tensors) {
  if (group.size() == 1) return;
  std::int64_t hash = 0;
  for (const Tensor& tensor : tensors) {
    group.broadcast(tensor, 0).wait();
    const std::uint64_t sum = io::checksum({tensor.data, tensor.bytes()}, size_of(tensor.dtype), 0);
    hash = static_cast<std::int64_t>(static_cast<std::uint64_t>(hash) * 31 + sum);
  }
  std::array<std::int64_t, 2> ends{hash, hash};
  group.all_reduce(view(std::span<std::int64_t>(ends).first(1), Shape{1}), comm::Reduction::min).wait();
  group.all_reduce(view(std::span<std::int64_t>(ends).last(1), Shape{1}), comm::Reduction::max).wait();
  if (ends[0] != ends[1]) throw SystemError("the ranks hold different weights or moments after rank 0 sent its own");
}

std::vector<Tensor> weight_tensors(parallel::ParameterStore& parameters) {
  std::vector<Tensor> all;
  for (std::size_t u = 0; u < parameters.units().size(); ++u) {
    const parallel::ParameterStore::Shard shard = parameters.shard(UnitIndex{static_cast<int>(u)});
    all.push_back(shard.master);
    if (shard.published.data != shard.master.data) all.push_back(shard.published);
  }
  return all;
}

std::optional<parallel::TiedRows> make_tied_rows(const EngineConfig& config, comm::Communicator& group) {
  if (!config.model.tied) return std::nullopt;
  return std::make_optional<parallel::TiedRows>(config.model.vocabulary, config.model.width,
                                                config.samples * config.positions * config.microbatches, group);
}

// A tied matrix: what the head and what the embedding gave are reduced apart and added once.
void add_tied_rows(const EngineConfig& config, const std::vector<layout::Unit>& units, std::optional<parallel::TiedRows>& rows,
                   parallel::GradientStore& gradients, const Tensor& tokens, ops::Ops& ops) {
  if (!rows) return;
  const UnitIndex tied = arch::unit_map(config.model).tied;
  const model::WeightSet gradient(units[static_cast<std::size_t>(tied.value)], gradients.shard(tied).gradient);
  rows->add_to(gradient[arch::Role::token_table], tokens, ops.embedding());
}

Replicas::Replicas(const UpdaterParts& parts)
    : parts_(parts),
      gradients_(parts.parameters.units(), arch::backward_order(arch::unit_map(parts.config.model)), parts.world,
                 parts.ops.elementwise(), parts.config.gradients),
      tied_rows_(make_tied_rows(parts.config, parts.world)),
      optimizer_(parts.config.adamw, parts.parameters),
      norm_(parts.parameters.units(), parts.world) {}

void Replicas::declare(const Arenas& arenas) {
  gradients_.declare(arenas.gradients, parts_.config.microbatches);
  if (tied_rows_) tied_rows_->declare(arenas.gradients, arenas.activations, arenas.workspace);
  optimizer_.declare(arenas.optimizer);
}

std::int64_t Replicas::begin(std::int64_t /*step*/, std::int64_t targets) {
  targets_ = targets;
  parts_.world.all_reduce(view(std::span(&targets_, 1), Shape{1}), comm::Reduction::sum).wait();
  gradients_.begin(parts_.config.microbatches);
  return targets_;
}

void Replicas::finish(const Passed& passed, const ops::StepScalars& scalars, StepResult& result) {
  gradients_.finish();
  add_tied_rows(parts_.config, parts_.parameters.units(), tied_rows_, gradients_, passed.tokens, parts_.ops);
  result.loss = passed.loss_sum;
  parts_.world.all_reduce(view(std::span(&result.loss, 1), Shape{1}), comm::Reduction::sum).wait();
  result.loss /= static_cast<double>(std::max<std::int64_t>(targets_, 1));
  result.gradient_norm = norm_(parts_.ops.reduce(), gradients_);
  result.finite = std::isfinite(result.gradient_norm);
  set_update(scalars, parts_.config.adamw,
             {.learning_rate = passed.learning_rate,
              .updates = passed.step + 1,
              .clip_factor = clip_factor(result.gradient_norm, parts_.config.grad_clip),
              .finite = result.finite && targets_ > 0});
  optimizer_.update(parts_.ops.update(), gradients_, scalars);
  result.exposed_seconds = gradients_.exposed_seconds();
  result.cover_seconds = gradients_.cover_seconds();
}

void Replicas::publish_state(std::int64_t /*step*/) {
  std::vector<Tensor> all = weight_tensors(parts_.parameters);
  for (std::size_t u = 0; u < parts_.parameters.units().size(); ++u) {
    const Optimizer::Moments moments = optimizer_.moments(UnitIndex{static_cast<int>(u)});
    all.insert(all.end(), {moments.exp_avg, moments.exp_avg_sq});
  }
  broadcast_checked(parts_.world, all);
}

}  // namespace lockstep::train
