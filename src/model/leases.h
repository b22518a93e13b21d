#pragma once

// What a part of the model holds while it works: its weights, and on the way back its units' gradients. A part reads one unit, or
// two where embedding or head share a tied matrix. It reads all of a unit, or a sub-layer's matrices and vectors.

#include <array>
#include <optional>
#include <span>

#include "arch/parts.h"
#include "model/weights.h"
#include "parallel/gradient_store.h"
#include "parallel/parameter_store.h"

namespace lockstep::model {

inline constexpr std::size_t most_units_of_a_part = 2;

/// A sub-layer without its two matrices has the most: its norm, the bias of each matrix, and the block's adapters.
inline constexpr std::size_t most_leases_of_a_part = 4;

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

/// A tile of a matrix [rows, columns], for as long as this lives.
struct LeasedTile {
  parallel::Lease lease;
  Tensor matrix;
};

/// A sub-layer's weights for one pass. Some are leased for as long as it works. Tiled matrices are leased a tile at a time.
class LayerWeights {
 public:
  /// Nothing is tiled.
  LayerWeights(const WeightSet& whole) : whole_(whole) {}  // NOLINT(google-explicit-constructor)
  /// The arguments outlive this.
  LayerWeights(const WeightSet& whole, parallel::ParameterStore& parameters, const arch::BlockParts& parts, layout::Pass pass)
      : whole_(whole), parameters_(&parameters), parts_(&parts), pass_(pass) {}
  /// Empty where the matrix is tiled.
  const Tensor& operator[](arch::Role role) const { return whole_[role]; }
  /// Null: the matrix is whole.
  const arch::TiledMatrix* tiled(arch::Role role) const { return parts_ == nullptr ? nullptr : parts_->find(role); }
  LeasedTile lease(const arch::Tile& tile) const;

 private:
  const WeightSet& whole_;
  parallel::ParameterStore* parameters_ = nullptr;
  const arch::BlockParts* parts_ = nullptr;
  layout::Pass pass_ = layout::Pass::forward;
};

/// A block's weights for one pass, given to each sub-layer when it asks. There is one lease for both sub-layers, or one after the
/// other, as `parts` says.
class BlockWeights {
 public:
  /// The arguments outlive this.
  BlockWeights(parallel::ParameterStore& parameters, const arch::BlockParts& parts, layout::Pass pass)
      : parameters_(parameters), parts_(parts), pass_(pass) {}
  BlockWeights(const BlockWeights&) = delete;
  BlockWeights& operator=(const BlockWeights&) = delete;
  /// A sub-layer's weights, valid until the other sub-layer asks.
  LayerWeights attention() { return {lease(parts_.attention), parameters_, parts_, pass_}; }
  LayerWeights mlp() { return {lease(parts_.mlp), parameters_, parts_, pass_}; }

 private:
  const WeightSet& lease(const std::vector<layout::Part>& parts);
  parallel::ParameterStore& parameters_;
  const arch::BlockParts& parts_;
  layout::Pass pass_;
  const std::vector<layout::Part>* leased_ = nullptr;  ///< the parts in `weights_`
  std::optional<LeasedWeights> weights_;
};

/// The gradients of `units`, some of the model's `all`, opened in their order for one micro-batch. close() ends it. The
/// destructor does not, for close() may start a reduction and throw.
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
