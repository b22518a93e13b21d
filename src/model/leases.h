#pragma once

// What a part of the model holds while it works: its weights, and on the way back its units' gradients. A part reads one unit, or
// two where embedding or head share a tied matrix; of a unit all, or a sub-layer's matrices and vectors.

#include <array>
#include <optional>
#include <span>

#include "arch/parts.h"
#include "model/weights.h"
#include "parallel/gradient_store.h"
#include "parallel/parameter_store.h"

namespace lockstep::model {

inline constexpr std::size_t most_units_of_a_part = 2;

inline constexpr std::size_t most_leases_of_a_part = 2;

/// Leases on `parts`, in their order, for as long as this lives; their tensors in one set.
class LeasedWeights {
 public:
  LeasedWeights(parallel::ParameterStore& parameters, std::span<const layout::Part> parts, layout::Pass pass);
  const WeightSet& weights() const { return weights_; }
  const Tensor& operator[](arch::Role role) const { return weights_[role]; }

 private:
  std::array<std::optional<parallel::Lease>, most_leases_of_a_part> leases_;
  WeightSet weights_;
};

/// A block's weights for one pass, given to each sub-layer when it asks: one lease for both, or one after the other, as the parts
/// are.
class BlockWeights {
 public:
  /// The arguments outlive this.
  BlockWeights(parallel::ParameterStore& parameters, const arch::BlockParts& parts, layout::Pass pass)
      : parameters_(parameters), parts_(parts), pass_(pass) {}
  BlockWeights(const BlockWeights&) = delete;
  BlockWeights& operator=(const BlockWeights&) = delete;
  /// Until the other sub-layer asks.
  const WeightSet& attention() { return lease(parts_.attention); }
  const WeightSet& mlp() { return lease(parts_.mlp); }

 private:
  const WeightSet& lease(const std::vector<layout::Part>& parts);
  parallel::ParameterStore& parameters_;
  const arch::BlockParts& parts_;
  layout::Pass pass_;
  const std::vector<layout::Part>* leased_ = nullptr;  ///< the parts in `weights_`
  std::optional<LeasedWeights> weights_;
};

/// The gradients of `units` (of the model's `all`), opened in their order for one micro-batch. close() ends it: not in the
/// destructor, for it may start a reduction and throw.
class OpenGradients {
 public:
  OpenGradients(parallel::GradientStore& store, const std::vector<layout::Unit>& all, std::span<const UnitIndex> units,
                Microbatch microbatch);
  OpenGradients(parallel::GradientStore& store, const std::vector<layout::Unit>& all, const UnitIndex& unit,
                Microbatch microbatch)
      : OpenGradients(store, all, std::span(&unit, 1), microbatch) {}
  const GradientSet& set() const { return set_; }
  void close();

 private:
  parallel::GradientStore& store_;
  std::array<UnitIndex, most_units_of_a_part> units_;
  std::size_t count_;
  Microbatch microbatch_;
  GradientSet set_;
};

}  // namespace lockstep::model
