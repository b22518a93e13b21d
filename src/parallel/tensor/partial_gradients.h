#pragma once

// Gradients of which each tensor rank makes only a part (layout::Shard::partial). Where ranks divide the tokens (sequence
// parallelism), gains and biases have such gradients: every rank holds them whole. Key and value heads that several ranks hold
// for their own queries have them too, and so do tensors by ShardRule::partial. The parts are added over the tensor ranks when a
// unit is closed, before replicas are summed. All other gradients are complete on every rank.

#include <vector>

#include "comm/communicator.h"
#include "layout/unit.h"
#include "ops/ops.h"
#include "parallel/gradient_store.h"
#include "tensor/arena.h"

namespace lockstep::parallel {

/// Which elements are added over the tensor ranks, unit by unit, and the memory that they are packed in.
struct PartialGradientMemory {
  /// Declares memory for `units` of the rank `tensor`. `sequence`: ranks divide the tokens.
  void declare(Arena& workspace, const std::vector<layout::Unit>& units, layout::TensorRank tensor, bool sequence);
  /// Whether there is anything to add.
  bool any() const { return packed.shape.rank() > 0; }

  /// Neighbouring elements of a unit, and their place among the elements that all ranks add.
  struct Piece {
    layout::Range elements;
    std::int64_t packed;
  };
  struct OfUnit {
    std::vector<Piece> pieces;  ///< this rank's
    std::int64_t elements = 0;  ///< of all ranks
  };
  std::vector<OfUnit> units;
  Tensor packed;  ///< [elements of the largest] f32
};

/// A store that passes gradients on to another one. Each unit is complete over the tensor ranks when it is closed.
class PartialGradients final : public GradientStore {
 public:
  /// Completes what `whole` reduces: each micro-batch or a step's sum. `group`: the tensor ranks. The references outlive this.
  PartialGradients(GradientStore& whole, const PartialGradientMemory& memory, comm::Communicator& group, ops::Ops& ops);

  void begin(int microbatches) override;
  OpenGradient open(UnitIndex unit, Microbatch microbatch) override;
  void expect(const Tensor& tokens) override { whole_.expect(tokens); }
  Tensor open_rows(Microbatch microbatch) override { return whole_.open_rows(microbatch); }
  void close(UnitIndex unit, Microbatch microbatch) override;
  void finish() override { whole_.finish(); }
  Shard shard(UnitIndex unit) override { return whole_.shard(unit); }

 private:
  void add(const PartialGradientMemory::OfUnit& parts, const Tensor& flat);
  GradientStore& whole_;
  const PartialGradientMemory& memory_;
  comm::Communicator& group_;
  ops::Ops& ops_;
  int microbatches_ = 0;
  std::vector<std::vector<Tensor>> open_;  ///< by unit, then micro-batch
};

}  // namespace lockstep::parallel
