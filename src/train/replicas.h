#pragma once

// Data parallelism: gradients are reduced over the ranks with the same parameters. Every one of these ranks applies the same
// update to the same weights. Where state is cut (ZeRO), each rank updates its part of the weights.

#include <memory>
#include <optional>

#include "parallel/global_norm.h"
#include "parallel/offload/offloaded_gradients.h"
#include "parallel/offload/offloaded_state.h"
#include "parallel/tensor/partial_gradients.h"
#include "parallel/zero/gradients.h"
#include "parallel/zero/resident_state.h"
#include "parallel/zero/tree_gradients.h"
#include "train/optimizer/optimizer.h"
#include "train/updater.h"

namespace lockstep::train {

/// The needs of replicas: all ranks of the plan with the same parameters sum their gradients and keep slots.
UpdaterNeeds replicas_needs(const layout::ParallelPlan& plan);

class Replicas final : public Updater {
 public:
  explicit Replicas(const UpdaterParts& parts) : Replicas(parts, parts.groups.replicas()) {}
  /// The replicas are the ranks of `group` alone, which outlives this. Fewer ranks than the plan's hold all state whole.
  Replicas(const UpdaterParts& parts, comm::Communicator& group);

  parallel::GradientStore& gradients() override { return completed_ ? *completed_ : *gradients_; }
  parallel::TrainingState& state() override { return *state_; }
  RunControl& control() override { return control_; }
  std::int64_t begin(std::int64_t step, std::int64_t targets) override;
  void finish(const Passed& passed, const ops::WrittenScalars& scalars, StepResult& result) override {
    reduce(passed, result);
    update(passed, scalars, result);
  }
  /// The first half of finish(): loss, gradient and norm become those of all ranks. state() has the gradient from then on.
  void reduce(const Passed& passed, StepResult& result);
  /// The second half of finish(): the update by state()'s gradient, clipped by the result's norm.
  void update(const Passed& passed, const ops::WrittenScalars& scalars, StepResult& result);

 private:
  /// Whether gradients are offloaded with the optimizer's state.
  bool gradients_leave() const { return parts_.memory.offloaded_gradients.used(); }
  std::unique_ptr<parallel::GradientStore> make_gradients();
  /// The store in front of `gradients_` that adds tensor ranks' parts, or adds micro-batches as a tree. Null where neither is
  /// needed.
  std::unique_ptr<parallel::GradientStore> make_completed();
  /// Whether `group_` is the plan's replicas, beside ranks of other layers and samples. Otherwise the group works by itself.
  bool of_plan() const { return &group_ == &parts_.groups.replicas(); }
  UpdaterParts parts_;
  comm::Communicator& group_;
  std::unique_ptr<Optimizer> optimizer_;
  std::unique_ptr<parallel::GradientStore> gradients_, completed_;
  std::unique_ptr<parallel::ResidentState> state_;
  parallel::GlobalNorm norm_;
  std::optional<parallel::NoiseMeter> noise_;
  RunControl control_;
  std::int64_t targets_ = 0;
};

}  // namespace lockstep::train
