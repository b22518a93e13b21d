#include "train/replicas.h"

#include <algorithm>
#include <cmath>

#include "layout/pipeline/schedules.h"

namespace lockstep::train {

UpdaterNeeds replicas_needs(const layout::ParallelPlan& plan) { return {.ranks = plan.dp * plan.cp, .norm_ranks = plan.ranks()}; }

namespace {

std::unique_ptr<parallel::ResidentState> make_state(const UpdaterParts& parts, parallel::GradientStore& gradients,
                                                    comm::Communicator& group) {
  const layout::CutOver over = parts.groups.plan().optimizer.cut;
  const bool whole = over == layout::CutOver::none;
  ensure(whole || &group == &parts.groups.replicas(), "state is cut over the ranks that share the model");
  const parallel::ResidentParts resident{
      .parameters = parts.parameters,
      .gradients = gradients,
      .slots = parts.memory.slots,
      .group = whole ? group : parts.groups.alike(over),
      .cut = whole ? layout::StateCut{.parts = 1, .copies = group.size(), .replica = group.rank()}
                   : layout::state_cut(parts.groups.plan(), parts.groups.at(), over),
      .pieces = &parts.pieces};
  if (parts.memory.offload.used()) return std::make_unique<parallel::OffloadedState>(resident, parts.memory.offload);
  if (parts.memory.halves())
    return std::make_unique<parallel::HalvedState>(resident, parts.memory.whole_masters, parts.ops.elementwise());
  return std::make_unique<parallel::ResidentState>(resident);
}

// The rank with the other part of a tied matrix's gradient, where embedding and head are on different stages; else none.
parallel::TiedPartner tied_partner(const UpdaterParts& parts) {
  const layout::StageMap stages = layout::stage_map(parts.config.plan);
  const int mine = parts.groups.at().pp, first = stages.first_rank(), last = stages.last_rank();
  if (!parts.config.model.tied || first == last || (mine != first && mine != last)) return {};
  return {&parts.groups.pipeline(), mine == first ? last : first};
}

parallel::GlobalNorm make_norm(const UpdaterParts& parts, parallel::TrainingState& state, comm::Communicator& group) {
  if (&group == &parts.groups.replicas()) return {state, parts.memory.norm, parts.groups};
  return {state, parts.memory.norm, group};
}

}  // namespace

Replicas::Replicas(const UpdaterParts& parts, comm::Communicator& group)
    : parts_(parts),
      group_(group),
      optimizer_(make_optimizer(parts.config.optimizer)),
      gradients_(make_gradients()),
      completed_(make_completed()),
      state_(make_state(parts, *gradients_, group)),
      norm_(make_norm(parts, *state_, group)) {
  optimizer_->address(parts.parameters.units(), parts.config.seed);
  if (parts.memory.noise.any()) {
    const layout::ParallelPlan& plan = parts.config.plan;
    noise_.emplace(
        parts.memory.noise, parts.groups.all(),
        parallel::NoiseMeter::Sizes{
            .microbatches = plan.dp * plan.microbatches, .first = plan.dp, .tied = arch::unit_map(parts.config.model).tied});
  }
  if (optimizer_->whole_tensors() == WholeTensorNeed::none) return;
  ensure(of_plan(), "whole tensors are those of the plan's ranks");
  optimizer_->connect(parts.memory.whole, parts.groups.all(), parts.parameters.units().size());
}

std::unique_ptr<parallel::GradientStore> Replicas::make_gradients() {
  const std::vector<layout::Unit>& units = parts_.parameters.units();
  const arch::UnitMap map = arch::unit_map(parts_.config.model);
  const int microbatches = parts_.config.plan.microbatches;
  const parallel::GradientGroups groups{group_, tied_partner(parts_)};
  if (!gradients_leave()) {
    auto gradients = std::make_unique<parallel::ZeroGradients>(units, map, microbatches, parts_.memory.gradients, groups,
                                                               parts_.ops, parts_.config.gradients);
    if (parts_.memory.noise.any()) {
      gradients->watch_first([this](UnitIndex unit, const Tensor& gradient) {
        noise_->add_first(parts_.ops, unit, parts_.parameters.units()[static_cast<std::size_t>(unit.value)], gradient);
      });
    }
    return gradients;
  }
  const auto complete = [this](UnitIndex unit, const parallel::GradientStore::Shard& gradient) {
    norm_.add(parts_.ops, state_->of_gradient(unit, gradient));
  };
  return std::make_unique<parallel::OffloadedGradients>(units, map, microbatches, parts_.memory.offloaded_gradients, groups,
                                                        parts_.ops, parts_.config.gradients, complete);
}

std::unique_ptr<parallel::GradientStore> Replicas::make_completed() {
  const UpdaterMemory& memory = parts_.memory;
  ensure(!memory.partial.any() || !memory.tree.any(), "in canonical mode no gradient of a unit is a tensor rank's part");
  if (memory.partial.any())
    return std::make_unique<parallel::PartialGradients>(*gradients_, memory.partial, parts_.groups.tensor(), parts_.ops);
  if (!memory.tree.any()) return nullptr;
  return std::make_unique<parallel::TreeGradients>(*gradients_, memory.tree, parts_.parameters.units(),
                                                   arch::unit_map(parts_.config.model), parts_.ops);
}

std::int64_t Replicas::begin(std::int64_t /*step*/, std::int64_t targets) {
  targets_ = targets;
  comm::Communicator& samples = of_plan() ? parts_.groups.data() : group_;
  samples.host().all_reduce(view(std::span(&targets_, 1), Shape{1}), comm::Reduction::sum).wait();
  if (noise_) noise_->begin();
  gradients().begin(parts_.config.plan.microbatches);
  return targets_;
}

void Replicas::reduce(const Passed& passed, StepResult& result) {
  gradients().finish();
  result.loss = passed.loss_sum;
  const auto add_losses = [&](comm::Communicator& ranks) {
    ranks.host().all_reduce(view(std::span(&result.loss, 1), Shape{1}), comm::Reduction::sum).wait();
  };
  add_losses(group_);
  if (of_plan()) add_losses(parts_.groups.pipeline());  // the ranks without a head have none
  result.loss /= static_cast<double>(std::max<std::int64_t>(targets_, 1));
  result.gradient_norm = gradients_leave() ? norm_.sum(parts_.ops) : norm_(parts_.ops);
  if (noise_) result.noise = noise_->measure(parts_.ops, *state_, targets_);
  result.exposed_seconds = gradients_->exposed_seconds();
  result.overlappable_seconds = gradients_->overlappable_seconds();
}

void Replicas::update(const Passed& passed, const ops::WrittenScalars& scalars, StepResult& result) {
  result.finite = std::isfinite(result.gradient_norm);
  optimizer_->update(parts_.ops, *state_, scalars,
                     {.learning_rate = passed.learning_rate,
                      .clip_factor = clip_factor(result.gradient_norm, parts_.config.grad_clip),
                      .finite = result.finite && targets_ > 0});
}

}  // namespace lockstep::train
