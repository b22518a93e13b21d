#pragma once

// The interface of context parallelism. A rank attends with its own tokens; other ranks may have other positions of the same
// samples. The caller gives q, k and v of the rank's own rows and gets the result for them. The implementation decides which rows
// and heads meet on which rank. It also decides what is sent for that: positions for heads, all keys, or keys round a ring. No
// layer asks which rank it runs on.

#include <memory>
#include <span>

#include "base/error.h"
#include "comm/communicator.h"
#include "layout/mesh.h"
#include "layout/sharded_dims.h"
#include "ops/ops.h"
#include "tensor/arena.h"

namespace lockstep::parallel {

/// Matrices of R = B T rows: q and o have the rank's H heads side by side, k and v its K key/value heads. Their gradients have
/// the same form.
struct AttentionTensors {
  Tensor q, k, v, o;
};

/// One call of attention: its shape, and which tokens its rows are.
struct AttentionCall {
  ops::AttentionShape shape;  ///< of the rank's own rows and heads: as many keys as queries
  ops::Positions positions;   ///< of a sample's T rows
  ops::DropoutSite dropout;   ///< of the attention weights, as ops::Attention takes it
  Tensor starts = {};         ///< where documents begin (ops/positions.h), for all positions of the samples
  /// The positions of a sample that each rank has, by rank, this one's among them; empty: as parallel::split_positions says.
  std::span<const ops::Positions> parts = {};
};

/// Throws BrokenRule unless the call has all positions of its samples, as a rank that attends alone needs.
inline void demand_all_positions(const AttentionCall& call) {
  ensure(call.positions.end() == call.positions.count(), "a rank that attends alone has all positions of its samples");
}

/// What a forward pass leaves for its backward pass beside its AttentionTensors. Each block has memory of its own for it for each
/// micro-batch.
struct AttentionSaved {
  Tensor lse;               ///< f32; which rank has which row is the implementation's choice
  Tensor weights, mask;     ///< f32, where attention's weights are kept whole
  AttentionTensors beside;  ///< rows or heads of other ranks, where the implementation keeps them
};

/// Sizes that memory is declared for.
struct AttentionSizes {
  std::int64_t rows;  ///< R, at most
  const layout::ShardedDims& dims;
  DType type;  ///< of activations
};

/// An implementation is made from a rank's place in the plan. It declares its memory before it has a group to work with. So
/// memory can be counted where nothing runs.
class ContextAttention {
 public:
  virtual ~ContextAttention() = default;
  /// `group`: the ranks that have the samples' other positions; it outlives this. Called before the first pass. Collective.
  virtual void connect(comm::Communicator& /*group*/) {}
  /// Declares what one block keeps of one micro-batch.
  virtual void declare(Arena& arena, AttentionSaved& saved, const AttentionSizes& sizes) const = 0;
  /// Declares what every forward and backward pass uses and forgets; nothing else lies there meanwhile. Called once, before any
  /// pass in training.
  virtual void declare(Arena& arena, const AttentionSizes& sizes) = 0;
  /// x.o from x.q, x.k and x.v. Collective over the ranks that have the samples' other positions, as backward() is.
  virtual void forward(ops::Ops& ops, const AttentionTensors& x, const AttentionSaved& saved, const AttentionCall& call) = 0;
  /// d.q, d.k and d.v from d.o; x and saved as forward() left them. Where layout::ranks_share_kv_heads() in canonical mode, d.k
  /// and d.v are f32: the sums of a tensor rank's heads.
  virtual void backward(ops::Ops& ops, const AttentionTensors& d, const AttentionTensors& x, const AttentionSaved& saved,
                        const AttentionCall& call) = 0;
};

/// The rank has all positions of its samples: nothing is sent. `canonical`: gradients of keys and values are summed by ranges of
/// heads.
std::unique_ptr<ContextAttention> make_local_attention(bool canonical = false);

/// The attention of the rank at `at` for samples of `positions` positions, as the plan says.
std::unique_ptr<ContextAttention> make_attention(const layout::ParallelPlan& plan, const layout::Coordinates& at,
                                                 std::int64_t positions);

}  // namespace lockstep::parallel
