#pragma once

// A chunk of the model: blocks [a, b), with the embedding before them or the head behind them where it has them. Forward is a
// loop over the blocks, backward the same loop the other way round. It makes the gradient of the input first. Those of the
// weights come with it or later.

#include <memory>
#include <vector>

#include "base/error.h"
#include "layout/access_order.h"
#include "model/block.h"
#include "model/embedding.h"
#include "model/head.h"
#include "model/leases.h"
#include "model/stage_memory.h"
#include "ops/weight_work.h"

namespace lockstep::model {

/// What is done with a block on the way back through a chunk.
struct BlockVisit {
  enum class Kind : std::uint8_t {
    bring,           ///< what it and the blocks that are run again with it have kept comes
    forward,         ///< it is run again, as the block behind it needs its output
    run_again,       ///< without its output
    activate_again,  ///< from its feed-forward layer's input
    backward
  } kind;
  std::size_t block;  ///< of the chunk
};

/// The weight gradients of a block that are made later.
class WeightQueue final : public ops::WeightSink {
 public:
  /// Room for `works` at a time.
  explicit WeightQueue(std::size_t works) { works_.reserve(works); }
  void push(const ops::WeightWork& work) override {
    ensure(works_.size() < works_.capacity(), "a queue has room for a block's weight gradients");
    works_.push_back(work);
  }
  /// Hands all works on to `sink`, in their order.
  void run(ops::WeightSink& sink) {
    for (const ops::WeightWork& work : works_) sink.push(work);
    works_.clear();
  }

 private:
  std::vector<ops::WeightWork> works_;
};

/// What each chunk's passes lease, in order.
std::vector<layout::ChunkParts> chunk_parts(const arch::PartMap& map, const std::vector<layout::Chunk>& chunks,
                                            const layout::Recompute& recompute = {});

/// Passes of a micro-batch go through a chunk in this order: forward, loss (with the head), backward or backward_input and
/// backward_weight. Where the chunk has the embedding, `input` is its tokens [R] i32. Otherwise it is the input [Ro, C], which
/// stays as it is until the gradient of the input is made.
class Stage {
 public:
  /// All arguments outlive the stage.
  Stage(const Context& context, parallel::GradientStore& gradients, ModelMemory& memory, int chunk);
  Stage(const Stage&) = delete;
  Stage& operator=(const Stage&) = delete;

  const layout::Chunk& chunk() const { return chunk_; }
  /// Ro: how many of a pass' R rows this rank has in the residual stream.
  std::int64_t stream_rows(const Pass& pass) const { return context_.boundaries.attention->outside(pass.grid()).rows(); }
  /// Runs the chunk's blocks forward. `output` [Ro, C].
  void forward(const Pass& pass, Microbatch microbatch, const Tensor& input, const Tensor& output);
  /// The token losses for the blocks' output x [Ro, C]. The head's weight gradients are made here, and so is d [Ro, C], the
  /// gradient of x.
  void loss(const Pass& pass, Microbatch microbatch, const Tensor& x, const Objective& objective, const Tensor& d);
  /// d [Ro, C]: the gradient of the output on entry, of the input on return (used up where the chunk has the embedding).
  void backward(const Pass& pass, Microbatch microbatch, const Tensor& input, const Tensor& d);
  /// As backward(), without the weight gradients of blocks. All that they need is kept until backward_weight().
  void backward_input(const Pass& pass, Microbatch microbatch, const Tensor& input, const Tensor& d);
  void backward_weight(Microbatch microbatch);
  /// The token losses alone; nothing is kept.
  void evaluate(const Pass& pass, const Tensor& x, const Objective& objective);

 private:
  using Deferred = std::vector<BlockDeferred>;
  /// What a block keeps of a micro-batch, and where it makes tensors again. That is in `deferred`, unless it is null.
  BlockSaved saved(Microbatch microbatch, std::size_t block, const Tensor& input, const Deferred* deferred = nullptr) const;
  /// Only what the block keeps. Where that lies elsewhere it was taken or brought before.
  BlockSaved kept(Microbatch microbatch, std::size_t block) const;
  KeptElsewhere::Key key(Microbatch microbatch, std::size_t block) const { return {number_, microbatch, block}; }
  /// Whether the block keeps something that does not stay in memory.
  bool leaves(std::size_t block) const {
    return elsewhere_.used() &&
           (recompute_.kind != layout::Recompute::Kind::full || block % static_cast<std::size_t>(recompute_.every) == 0);
  }
  /// Brings what the blocks from `first` on, which are run again together, have kept. What the blocks before them have kept comes
  /// meanwhile.
  void bring(Microbatch microbatch, std::size_t first);
  /// `there`: what the last blocks would make again is still in memory.
  void blocks_backward(const Pass& pass, Microbatch microbatch, const Tensor& input, const Tensor& d, const Deferred* deferred,
                       bool there);
  void embedding_backward(const Pass& pass, Microbatch microbatch, const Tensor& tokens, const Tensor& d);
  /// The unit of a block that is trained: its own, or that of its adapters.
  UnitIndex unit(std::size_t block) const { return map_.trained(static_cast<std::size_t>(chunk_.blocks.first) + block); }
  const arch::BlockParts& parts_of(std::size_t block) const {
    return parts_.blocks[static_cast<std::size_t>(chunk_.blocks.first) + block];
  }
  std::vector<WeightQueue>& queues(Microbatch microbatch) {
    return queues_[static_cast<std::size_t>(microbatch.value) % queues_.size()];
  }

  const Context& context_;
  parallel::GradientStore& gradients_;
  StageMemory& memory_;
  const Scratch& scratch_;
  MadeAgain& again_;
  KeptElsewhere& elsewhere_;
  layout::Recompute recompute_;
  int number_;  ///< of the chunk
  layout::Chunk chunk_;
  std::size_t kept_;  ///< slots that are whole: see StageMemory
  arch::UnitMap map_;
  arch::PartMap parts_;
  std::vector<BlockVisit> back_, back_at_once_;
  EmbeddingLayer embedding_;
  std::vector<Block> blocks_;
  Head head_;
  std::vector<std::vector<WeightQueue>> queues_;  ///< [slots of deferred work][blocks]
};

/// A stage for each chunk of `memory`.
std::vector<std::unique_ptr<Stage>> make_stages(const Context& context, parallel::GradientStore& gradients, ModelMemory& memory);

}  // namespace lockstep::model
