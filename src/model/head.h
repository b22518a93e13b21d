#pragma once

// Final norm, logits and loss. Logits exist one chunk of tokens at a time; their gradient is made in the same visit. V is the
// number of tokens of the vocabulary. Where ranks divide the vocabulary, V is that of the rank's part. Then the boundary collects
// what each rank says of its columns.

#include "model/context.h"
#include "model/saved.h"
#include "model/weights.h"
#include "tensor/arena.h"

namespace lockstep::model {

/// The number of tokens whose logits exist at a time: a multiple of 256 (numerics.md section 3.2). It keeps the logits near 8
/// MiB.
std::int64_t logit_rows(const layout::ShardedDims& dims, std::int64_t rows);

/// Temporaries of passes of at most R rows, Ro of them outside the head's boundary.
struct HeadMemory {
  Tensor normed;         ///< [Ro, C]
  Tensor stats;          ///< [Ro, 2] f32
  Tensor logits;         ///< [logit_rows, V] f32
  Tensor d_normed;       ///< [Ro, C] in training
  Tensor tanhs;          ///< [logit_rows, V] f32 in training, where logits are capped: ops::Elementwise::soft_cap's
  Tensor summaries;      ///< [n, logit_rows, 3] f64 of the vocabulary's n parts (ops/loss), where there are several
  Tensor normed_inside;  ///< [R, C] where rows are split
  Tensor partial, sums;  ///< [R, C], [Ro, C] f32, as in Scratch, where something is carried
  Tensor judged;         ///< [R', C] f32 in training: as partial, of whole samples where these are judged and ranks divide them
};
/// `judgers`: Sums::all_judgers.
void declare(Arena& arena, HeadMemory& memory, const layout::ShardedDims& dims, const Rows& rows, DType type, int judgers,
             bool training);

class SampleJudge;

/// A pass of B samples that are judged whole: the loss is a function of the sums of their token losses.
struct JudgedSamples {
  Tensor losses;       ///< [B] f64, zero: gets the sum of each sample's token losses, over all ranks that have its tokens
  Tensor factors;      ///< [B] f32: what the gradient of each sample's sum is multiplied by
  int microbatch = 0;  ///< the judge's number of the pass
  SampleJudge* judge = nullptr;  ///< null: losses are those of tokens
};

/// Says what samples that are judged whole are worth.
class SampleJudge {
 public:
  virtual ~SampleJudge() = default;
  virtual JudgedSamples of(int microbatch) = 0;
  /// Makes the factors of a pass, whose losses are complete.
  virtual void weigh(int microbatch) = 0;
};

/// What a pass is judged by.
struct Objective {
  Tensor targets;  ///< [R] i32; -1 is ignored. Where ranks divide samples (Sums), [R'] of whole samples.
  /// [1] f64: the sum of the rows' losses is added to it. Where a gradient is made there is one for each of
  /// Sums::sample_ranges().
  Tensor loss;
  Tensor scale = {};  ///< [1] f32, one over the step's global number of targets: what the gradient is multiplied by
  JudgedSamples samples = {};
};

class Head {
 public:
  /// Both arguments outlive the head.
  Head(const Context& context, const HeadMemory& memory)
      : context_(context),
        memory_(memory),
        sums_(context.sums),
        boundary_(*context.boundaries.head),
        norm_(norm_of(context)),
        projection_(arch::unit_map(context.config).projection) {}
  /// The losses of the pass' tokens. d [Ro, C] gets the gradient of x [Ro, C]. The sink of `gradients` runs its work at once: the
  /// next chunk of logits takes the place of the last. Samples that are judged whole go through the projection twice: the factors
  /// of gradients follow from all of their losses.
  void loss_and_gradient(const Pass& pass, const Tensor& x, const Objective& objective, const WeightSet& w,
                         const Gradients& gradients, const Tensor& d);
  /// The rows' losses alone; no scale is needed. Samples that are judged whole get theirs in `samples.losses` instead of `loss`.
  void loss(const Pass& pass, const Tensor& x, const Objective& objective, const WeightSet& w);
  /// logits [R, V] f32 of x [Ro, C], at most the declared rows. They are those of the rank's part of the vocabulary.
  void logits(const Tensor& logits, const Tensor& x, const WeightSet& w);

 private:
  bool is_local() const { return boundary_.kind() == parallel::BoundaryKind::local; }
  /// Multiplies by the model's scale of logits, if it has one.
  void scale(const Tensor& logits);
  /// The logits of `normed`, scaled, and capped where the model caps them; `tanhs` as ops::Elementwise::soft_cap has it.
  void make_logits(const Tensor& logits, const Tensor& normed, const Tensor& projection, const Tensor& tanhs);
  /// A chunk's logits of `normed` and their losses; with a scale they become their gradient.
  Tensor judge(const Tensor& normed, const Tensor& projection, const Objective& chunk);
  /// How many of `rows` make a chunk, from their first on. Where samples are judged whole, a chunk has rows of one sample.
  std::int64_t chunk_rows(const Objective& objective, const ops::IndexRun& rows, std::int64_t all) const;
  /// The losses of samples that are judged whole, from all of their rows `inside`.
  void judge_samples(const Tensor& inside, const Objective& objective, const Tensor& projection);
  /// As judge(), for the logits of a vocabulary of several parts, some of which this rank has.
  void judge_parts(const Tensor& logits, const Objective& chunk);
  /// The losses of rows, and what they add to `partial`, the gradient of the norm's output, and to the projection's gradient.
  void learn(const Tensor& inside, const Tensor& partial, const Objective& objective, const Tensor& projection,
             const Gradients& gradients);
  /// Where the gradient of the norm's output inside [R, C] lies.
  const Tensor& partial_inside() const { return is_local() ? memory_.d_normed : memory_.partial; }
  /// The gradient of the norm's output outside, for the rows of x, from what learn() left.
  Tensor left(const Pass& pass, const Tensor& x, const Tensor& partial);
  /// The final norm's output inside: [R, C].
  Tensor norm(const parallel::TokenGrid& tokens, const Tensor& x, const WeightSet& w);
  /// As norm(), for the rows that are judged here: those of whole samples where ranks divide these.
  Tensor norm_judged(const Pass& pass, const Tensor& x, const WeightSet& w);
  /// The projection [V, C]. A tied table may have a packed copy that is the head's alone.
  const Tensor& projection(const WeightSet& w) const;
  /// The rows of the projection [V, C], or of its gradient, for the part of the vocabulary whose logits are made here.
  Tensor judged(const Tensor& matrix) const;
  const Context& context_;
  const HeadMemory& memory_;
  Sums& sums_;
  parallel::Boundary& boundary_;
  ops::Norm& norm_;
  arch::Role projection_;  ///< of the matrix [V, C]: the head's own, or the token table
};

}  // namespace lockstep::model
