#pragma once

// Final norm, logits and loss. Logits exist one chunk of tokens at a time; their gradient is made in the same visit. V tokens of
// the vocabulary, those of the rank's part where ranks divide it: then the boundary collects what each says of its columns.

#include "model/context.h"
#include "model/saved.h"
#include "model/weights.h"
#include "tensor/arena.h"

namespace lockstep::model {

/// Tokens whose logits exist at a time: a multiple of 256 (numerics.md section 3.2), as many as keep them near 8 MiB.
std::int64_t logit_rows(const layout::ShardedDims& dims, std::int64_t rows);

/// Temporaries of passes of at most R rows, Ro of them outside the head's boundary.
struct HeadMemory {
  Tensor normed;         ///< [Ro, C]
  Tensor stats;          ///< [Ro, 2] f32
  Tensor logits;         ///< [logit_rows, V] f32, of whole samples in canonical mode
  Tensor d_normed;       ///< [Ro, C] in training
  Tensor summaries;      ///< [n, logit_rows, 3] f64 of the vocabulary's n parts (ops/loss), where there are several
  Tensor normed_inside;  ///< [R, C] where rows are split
  Tensor partial, sums;  ///< [R, C], [Ro, C] f32, as in Scratch, where something is carried
  Tensor judged;         ///< [R', C] f32 in training: as partial, of whole samples where these are judged and ranks divide them
};
void declare(Arena& arena, HeadMemory& memory, const layout::ShardedDims& dims, const Rows& rows, DType type, bool training,
             bool canonical = false);

/// What a pass is judged by.
struct Objective {
  Tensor targets;  ///< [R] i32; -1 is ignored. In canonical mode of whole samples.
  /// [1] f64: the sum of the rows' losses is added to it. In canonical mode a gradient comes with one for each range of samples.
  Tensor loss;
  Tensor scale = {};  ///< [1] f32, one over the step's global number of targets: what the gradient is multiplied by
};

class Head {
 public:
  /// Both outlive the head.
  Head(const Context& context, const HeadMemory& memory)
      : context_(context),
        memory_(memory),
        boundary_(*context.boundaries.head),
        norm_(norm_of(context)),
        projection_(arch::unit_map(context.config).projection) {}
  /// The losses of the pass' tokens; d [Ro, C] gets the gradient of x [Ro, C]. The sink of `gradients` runs its work at once: the
  /// next chunk of logits takes the place of the last.
  void loss_and_gradient(const Pass& pass, const Tensor& x, const Objective& objective, const WeightSet& w,
                         const Gradients& gradients, const Tensor& d);
  /// The rows' losses alone; no scale is needed.
  void loss(const Pass& pass, const Tensor& x, const Objective& objective, const WeightSet& w);
  /// logits [R, V] f32 of x [Ro, C]: at most the declared rows; those of the rank's part of the vocabulary.
  void logits(const Tensor& logits, const Tensor& x, const WeightSet& w);

 private:
  /// The losses of a chunk's logits; with a scale they become their gradient.
  void judge(const Tensor& logits, const Objective& chunk);
  /// The same of a vocabulary of several parts, of which this rank has some.
  void judge_parts(const Tensor& logits, const Objective& chunk, std::span<const ops::VocabularyPart> own, int parts);
  /// Of rows [begin, begin + count): their losses and what these give to `partial`, the gradient of the norm's output, and to
  /// `gradient`, that of the projection.
  void learn(const Tensor& inside, const Tensor& partial, const ops::IndexRun& rows, const Objective& objective,
             const Tensor& projection, ops::WeightSink& sink, const Tensor& gradient, bool accumulate);
  /// learn() by ranges of samples.
  void learn_ranges(const Tensor& inside, const Tensor& partial, const Objective& objective, const Tensor& projection,
                    const Gradients& gradients);
  /// Where learn() leaves what it gives to the norm's output of rows inside [R, C], or of whole samples.
  Tensor partial_of(std::int64_t rows) const;
  /// The gradient of the norm's output outside, x's rows, of partial_of().
  Tensor left(const Pass& pass, const Tensor& x, const Tensor& partial);
  /// The final norm's output inside: [R, C].
  Tensor norm(const parallel::TokenGrid& tokens, const Tensor& x, const WeightSet& w);
  /// The same of the rows that are judged here, of whole samples where ranks divide these.
  Tensor norm_judged(const Pass& pass, const Tensor& x, const WeightSet& w);
  /// Whether ranks that divide the positions of samples judge whole samples, each by a part of the vocabulary.
  bool judges_whole() const { return context_.canonical != nullptr && context_.canonical->samples().divided(); }
  /// [V, C]: a tied table may have a packed copy that is the head's alone.
  const Tensor& projection(const WeightSet& w) const;
  /// Of it, or of its gradient, the tokens that are judged here.
  Tensor judged(const Tensor& matrix) const;
  /// Room for the logits of `count` rows for these.
  Tensor logits_of(std::int64_t count) const;
  const Context& context_;
  const HeadMemory& memory_;
  parallel::Boundary& boundary_;
  ops::Norm& norm_;
  arch::Role projection_;  ///< of the matrix [V, C]: the head's own, or the token table
};

}  // namespace lockstep::model
