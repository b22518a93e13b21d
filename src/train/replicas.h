#pragma once

// Data parallelism: gradients are reduced over the ranks, and every one of them applies the same update to the same weights.

#include <optional>
#include <span>
#include <vector>

#include "parallel/global_norm.h"
#include "parallel/zero/gradients.h"
#include "parallel/zero/tied_rows.h"
#include "train/updater.h"

namespace lockstep::train {

/// Every unit's master weights, and beside them what the model reads where that is apart: whole on every rank.
std::vector<Tensor> weight_tensors(parallel::ParameterStore& parameters);
/// Every rank of `group` takes rank 0's tensors; throws SystemError when they differ afterwards. Collective.
void broadcast_checked(comm::Communicator& group, std::span<const Tensor> tensors);

/// Of a model whose matrix is tied, for the steps of `config`.
std::optional<parallel::TiedRows> make_tied_rows(const EngineConfig& config, comm::Communicator& group);
/// Adds a tied matrix's rows to the rest of its gradient. Collective over the rows' group.
void add_tied_rows(const EngineConfig& config, const std::vector<layout::Unit>& units, std::optional<parallel::TiedRows>& rows,
                   parallel::GradientStore& gradients, const Tensor& tokens, ops::Ops& ops);

class Replicas final : public Updater {
 public:
  explicit Replicas(const UpdaterParts& parts);

  void declare(const Arenas& arenas) override;
  parallel::GradientStore& gradients() override { return gradients_; }
  const Tensor* embedded_rows() const override { return tied_rows_ ? &tied_rows_->table() : nullptr; }
  std::int64_t begin(std::int64_t step, std::int64_t targets) override;
  void finish(const Passed& passed, const ops::StepScalars& scalars, StepResult& result) override;
  Optimizer::Moments moments(UnitIndex unit) override { return optimizer_.moments(unit); }
  void publish_state(std::int64_t step) override;

 private:
  UpdaterParts parts_;
  parallel::ZeroGradients gradients_;
  std::optional<parallel::TiedRows> tied_rows_;
  Optimizer optimizer_;
  parallel::GlobalNorm norm_;
  std::int64_t targets_ = 0;
};

}  // namespace lockstep::train
