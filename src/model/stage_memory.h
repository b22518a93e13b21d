#pragma once

// The memory of a rank's chunks. It has what micro-batches keep, in as many slots as the list of actions needs. It also has what
// chunks hand over, and temporaries that they share. It is declared from sizes alone, so that it can be planned where nothing
// runs.

#include <vector>

#include "layout/parallel_plan.h"
#include "layout/pipeline/lives.h"
#include "model/head.h"
#include "model/kept_elsewhere.h"
#include "model/saved.h"

namespace lockstep::model {

/// What one chunk's passes keep.
struct StageMemory {
  /// [lives.activated][blocks]; the first lives.kept slots are whole. Where blocks are run again: [lives.kept][blocks]. Then each
  /// `every`-th block has x alone, the others nothing. What is made again is in neither. Empty where what blocks keep lies
  /// elsewhere.
  std::vector<std::vector<BlockSaved>> saved;
  std::vector<std::vector<BlockDeferred>> deferred;  ///< [lives.deferred][blocks]
  std::vector<Tensor> inputs, outputs, gradients;    ///< [Ro, C] each, as many as in ChunkLives
};

/// Temporaries of any chunk's passes.
struct Temporaries {
  Scratch scratch;
  HeadMemory head;
};

/// What is made again of blocks that are run again together: for the passes of one micro-batch through one chunk at a time.
struct MadeAgain {
  std::vector<BlockSaved> blocks;  ///< the first one's input is kept in StageMemory or elsewhere; empty: nothing is made again
  /// The pass whose forward pass left the last blocks' values here. Chunk -1: no chunk's values are here.
  struct Owner {
    int chunk = -1;
    Microbatch microbatch;
    friend bool operator==(const Owner&, const Owner&) = default;
  } left_by;
};

/// Sizes that a rank's memory is declared for.
struct ModelShape {
  Rows rows;  ///< of a micro-batch, at most
  std::vector<layout::Chunk> chunks;
  std::vector<layout::ChunkLives> lives;  ///< layout::lives_of
  parallel::ContextAttention* attention;  ///< which declares its own; outlives the memory
  layout::Recompute recompute = {};
  int judgers = 1;                           ///< Sums::all_judgers
  layout::Tier kept = layout::Tier::device;  ///< where what blocks keep lies until their backward pass
  std::int64_t tile_sums = 0;                ///< arch::tile_sums()
};

class ModelMemory {
 public:
  explicit ModelMemory(ModelShape shape);
  ModelMemory(const ModelMemory&) = delete;
  ModelMemory& operator=(const ModelMemory&) = delete;
  /// `type`: of activations. `spill`: where what the shape places elsewhere goes.
  void declare(Arena& activations, Arena& workspace, const arch::ModelConfig& config, const layout::ShardedDims& dims, DType type,
               parallel::Spill* spill = nullptr);

  const ModelShape& shape() const { return shape_; }
  StageMemory& stage(int chunk) { return stages_[static_cast<std::size_t>(chunk)]; }
  Temporaries& temporaries() { return temporaries_; }
  MadeAgain& again() { return again_; }
  /// Unused where what blocks keep stays in memory.
  KeptElsewhere& elsewhere() { return elsewhere_; }

  /// A tensor of a micro-batch, and its number among the tensors of its kind, in which micro-batches take turns.
  struct Place {
    Tensor tensor;  ///< [Ro, C]
    int chunk = 0, slot = 0;
  };
  /// A chunk's input, where it has no embedding.
  Place input(int chunk, Microbatch microbatch) const;
  /// A chunk's output: where the chunk behind it on this rank reads it, or until it is sent or goes into the head.
  Place output(int chunk, Microbatch microbatch) const;
  /// The gradient of a chunk's output, which becomes that of its input.
  Place gradient(int chunk, Microbatch microbatch) const;

 private:
  void declare_elsewhere(Arena& activations, const BlockSizes& sizes, parallel::Spill* spill);

  ModelShape shape_;
  std::vector<StageMemory> stages_;
  Temporaries temporaries_;
  MadeAgain again_;
  KeptElsewhere elsewhere_;
};

}  // namespace lockstep::model
