#pragma once

// The blocks of a pipeline stage with the embedding before and the head behind them (one stage holds both): forward is a
// loop, backward the same loop the other way round.

#include <vector>

#include "layout/access_order.h"
#include "model/block.h"
#include "model/embedding.h"
#include "model/head.h"

namespace lockstep::model {

/// Sizes a training stage is declared for.
struct StageShape {
  std::int64_t samples = 0;    ///< of a micro-batch, at most
  std::int64_t positions = 0;  ///< of a sample, at most
  int microbatches = 1;        ///< of a step
  int live = 1;                ///< micro-batches whose activations are kept at once
};

class Stage {
 public:
  /// `embedded_rows`: [V, C] f32 where a tied matrix's rows accumulate (parallel::TiedRows), null otherwise; it may get its
  /// address later. All arguments but the shape outlive the stage.
  Stage(const Context& context, parallel::GradientStore& gradients, const Tensor* embedded_rows, ops::WeightSink& sink,
        const StageShape& shape);
  Stage(const Stage&) = delete;
  Stage& operator=(const Stage&) = delete;
  /// Kept activations and temporaries.
  void declare(Arena& activations, Arena& workspace);
  /// The units a micro-batch needs, in order, for layout::access_order.
  const std::vector<UnitIndex>& forward_units() const { return forward_units_; }
  const std::vector<UnitIndex>& backward_units() const { return backward_units_; }

  /// tokens, targets [R] i32. Returns the sum of the token losses; the head's weight gradients and the gradient of its input
  /// are made here (gradient_seconds() says how long that took). `scale`: see Head.
  double forward(const Pass& pass, Microbatch microbatch, const Tensor& tokens, const Tensor& targets, const Tensor& scale);
  /// After forward() of the same micro-batch.
  void backward(const Pass& pass, Microbatch microbatch);
  /// [microbatches * R] i32: the tokens of the step, whose forward passes are done.
  const Tensor& tokens() const { return tokens_; }
  /// Sum of the token losses, nothing kept; never between forward and backward.
  double evaluate(const Pass& pass, const Tensor& tokens, const Tensor& targets);
  /// Seconds of the last forward() that belong to the backward pass.
  double gradient_seconds() const { return gradient_seconds_; }

 private:
  struct Slot {
    std::vector<BlockSaved> blocks;
    Tensor out;  ///< [R, C] the last block's output
    Tensor d;    ///< [R, C] its gradient
  };
  WeightSet leased(const parallel::Lease& lease, UnitIndex unit) const;
  Slot& slot(Microbatch microbatch) { return slots_[static_cast<std::size_t>(microbatch.value % shape_.live)]; }
  Tensor step_tokens(Microbatch microbatch, std::int64_t rows) const;
  /// From tokens to the last block's output.
  Tensor run_blocks(const Pass& pass, Slot& slot, const Tensor& tokens);

  const Context& context_;
  parallel::GradientStore& gradients_;
  ops::WeightSink& sink_;
  StageShape shape_;
  arch::UnitMap map_;
  std::vector<UnitIndex> forward_units_, backward_units_;
  EmbeddingLayer embedding_;
  std::vector<Block> blocks_;
  Head head_;
  std::vector<Slot> slots_;
  Scratch scratch_;
  const Tensor* embedded_rows_;
  Tensor tokens_;
  double gradient_seconds_ = 0;
};

}  // namespace lockstep::model
