#pragma once

// How a rank's layers make the sums that a layout may divide: over heads, features, the vocabulary and tokens. This class makes
// each sum at once, in the order of numerics.md section 3.2. Canonical mode makes it by ranges (model/canonical).

#include <algorithm>
#include <span>
#include <vector>

#include "layout/sharded_dims.h"
#include "ops/ops.h"
#include "ops/weight_work.h"
#include "parallel/boundary.h"
#include "parallel/context/key_sums.h"
#include "parallel/context/whole_samples.h"
#include "tensor/arena.h"

namespace lockstep::model {

struct Pass;

/// The gradients of what a micro-batch has looked up.
struct EmbeddingBackward {
  Tensor d_tokens;     ///< [V, C] f32: rows are added
  Tensor d_positions;  ///< [P, C] f32 of learned positions, or empty
  Tensor outside;      ///< [Ro, C]: the gradient of the rows
  Tensor inside;       ///< [R, C]: the gradient of all ranks' rows
  Tensor tokens;       ///< [R] i32
  int microbatch;
  bool accumulate;  ///< d_positions is added to, not overwritten
};

/// The way back through norms of heads that share a gain: R rows, n heads of D features.
struct HeadsBackward {
  Tensor d;       ///< [R, n D]: the gradient of the norms' outputs on entry, of their inputs on return
  Tensor x;       ///< [R, n D]: their inputs
  Tensor stats;   ///< [n R, 2], head by head
  Tensor gain;    ///< [D]
  Tensor d_gain;  ///< [D] f32: of this rank's heads
  bool of_keys;   ///< the heads are the rank's key/value heads, not its heads
  bool accumulate;
  /// The norm of rows [first, first + count) of one head.
  ops::NormBackward head(std::int64_t head, std::int64_t first, std::int64_t count) const;
};

/// What the gain of a norm of all queries, or of all keys, is trained by. R rows, n features of this rank.
struct WidthGain {
  Tensor d;       ///< [R, n]: the gradient of the norm's output
  Tensor x;       ///< [R, n]: its input
  Tensor rstd;    ///< [R]
  Tensor d_gain;  ///< [n] f32
  bool accumulate;
};

class Sums : public ops::WeightSink {
 public:
  explicit Sums(const layout::ShardedDims& dims) : Sums(dims, {1, 0, 1}, {}) {}
  Sums(const Sums&) = delete;
  Sums& operator=(const Sums&) = delete;
  /// `context`: the ranks that have the samples' other positions. Both arguments outlive this. Called before the first pass that
  /// goes back.
  void connect(ops::Ops& ops, comm::Communicator& context) {
    ops_ = &ops;
    samples.connect(context);
  }

  // The ranges that this rank has of each index that is summed over. Where a grid is empty the sum is made at once.
  ops::SumGrid heads;       ///< of the inputs of attention's last product
  ops::SumGrid qkv;         ///< of attention's first product's outputs: the heads of q, k and v of a range
  ops::SumGrid features;    ///< of the inputs of the feed-forward layer's last product
  ops::SumGrid up;          ///< of the feed-forward layer's first product's outputs, the gate's too
  ops::SumGrid vocabulary;  ///< of the head's outputs
  ops::SumGrid tokens;      ///< of the rows of a micro-batch's whole samples

  /// The ranks that divide the positions of samples, where sums over tokens are those of whole samples. Where no ranks do, rows
  /// are whole.
  parallel::WholeSamples samples;
  parallel::KeySums keys;
  layout::Range judged;                      ///< the tokens of the rank's vocabulary whose logits it makes
  std::vector<ops::VocabularyPart> judgers;  ///< the parts that `judged` is summed by
  int all_judgers;                           ///< of the whole vocabulary
  /// The tokens of whole samples of a step's micro-batches. Empty where they are not there before the first embed_backward().
  Tensor step_ids;

  /// Ranges of samples in a micro-batch; each has a loss and a gradient of the head's matrix of its own.
  int sample_ranges() const { return std::max(1, static_cast<int>(tokens.ranges.size())); }
  /// The rows of a range, out of `all` rows.
  ops::IndexRun range_rows(int range, std::int64_t all) const {
    return tokens.ranges.empty() ? ops::IndexRun{0, all} : tokens.ranges[static_cast<std::size_t>(range)].front();
  }
  /// Where a range puts its part of `gradient`, that of the head's matrix. Place 0 is the gradient itself.
  Tensor head_place(const Tensor& gradient, int place) const {
    return place == 0 ? gradient : head_places_[static_cast<std::size_t>(place) - 1].reshape(gradient.shape);
  }

  /// Declares what training takes on a rank that has the embedding or the head or both. `type`: of activations.
  virtual void declare(Arena& /*gradients*/, Arena& /*workspace*/, DType /*type*/, bool /*embedding*/, bool /*head*/) {}
  /// Makes the gradient of a matrix and its bias at once.
  void push(const ops::WeightWork& work) override;
  /// Norm::backward() of the pass' rows outside of `boundary`.
  virtual void norm_backward(ops::Norm& norm, parallel::Boundary& boundary, const Pass& pass, const ops::NormBackward& call);
  /// Norm::backward() of every head, of the pass' rows inside of `boundary`.
  virtual void heads_backward(ops::Norm& norm, parallel::Boundary& boundary, const Pass& pass, const HeadsBackward& call);
  /// SplitNorm::gain_gradient() of the pass' rows inside.
  virtual void width_gain(ops::SplitNorm& norm, const Pass& pass, const WidthGain& call);
  /// sum [C] f32 (+)= the sum of the pass' `rows` [Ro, C].
  virtual void sum_rows(parallel::Boundary& boundary, const Pass& pass, const Tensor& sum, const Tensor& rows, bool accumulate);
  virtual void embed_backward(parallel::Boundary& boundary, const Pass& pass, const EmbeddingBackward& call);
  /// sums [B] f64, over a rank's own positions of samples, become sums over all positions.
  virtual void complete_samples(const Tensor& sums) { samples.add_parts(*ops_, sums); }
  /// The sum of a step's `losses`, which are overwritten.
  virtual double total(std::span<double> losses) const;

 protected:
  Sums(const layout::ShardedDims& dims, parallel::WholeSamples whole_samples, const parallel::KeySums& key_sums);
  ops::Ops* ops_ = nullptr;
  layout::ShardedDims dims_;
  std::vector<Tensor> head_places_;  ///< [V C] f32 each
};

}  // namespace lockstep::model
