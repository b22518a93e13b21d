#pragma once

// Canonical mode (numerics.md section 3.8): micro-batches are branches of the tree in which ranks are added. Each gets a gradient
// of its own. As soon as two halves of a branch are there, one is added onto the other. So few gradients wait.

#include <optional>
#include <vector>

#include "arch/parameters.h"
#include "layout/unit.h"
#include "ops/ops.h"
#include "parallel/gradient_store.h"
#include "parallel/zero/gradients.h"
#include "tensor/arena.h"

namespace lockstep::parallel {

struct TreeGradientMemory {
  /// Declares memory for the micro-batches of `work`, a power of two; nothing for one.
  void declare(Arena& gradients, const std::vector<layout::Unit>& units, const GradientWork& work);
  bool any() const { return !places.empty(); }

  std::vector<Tensor> places;           ///< [elements of the units that get gradients] f32 each: places 1, 2, ... of the tree
  std::vector<layout::Range> of_units;  ///< by unit: its range in every place
  bool in_turn = true;                  ///< a micro-batch's gradient of a unit is complete before the next one's is begun
};

/// A store that passes a step's sum on to another one, as the gradient of the step's first micro-batch. The other store must
/// reduce a step's sum.
class TreeGradients final : public GradientStore {
 public:
  /// The references outlive this.
  TreeGradients(GradientStore& whole, const TreeGradientMemory& memory, const std::vector<layout::Unit>& units,
                const arch::UnitMap& map, ops::Ops& ops);

  void begin(int microbatches) override { whole_.begin(microbatches); }
  OpenGradient open(UnitIndex unit, Microbatch microbatch) override;
  void expect(const Tensor& tokens) override { whole_.expect(tokens); }
  Tensor open_rows(Microbatch microbatch) override;
  void close(UnitIndex unit, Microbatch microbatch) override;
  void finish() override { whole_.finish(); }
  Shard shard(UnitIndex unit) override { return whole_.shard(unit); }

 private:
  int place_of(int microbatch) const;
  /// The gradient of a unit at a place.
  Tensor at(UnitIndex unit, int place) const;

  GradientStore& whole_;
  const TreeGradientMemory& memory_;
  std::optional<arch::TokenTable> table_;
  ops::Ops& ops_;
  std::vector<Tensor> first_;  ///< by unit: what lies at place 0
};

}  // namespace lockstep::parallel
