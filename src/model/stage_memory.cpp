#include "model/stage_memory.h"

#include <fmt/format.h>

#include <algorithm>

namespace lockstep::model {
namespace {

using RecomputeKind = layout::Recompute::Kind;

std::size_t index(int slots) { return static_cast<std::size_t>(slots); }

ModelMemory::Place place_of(const std::vector<Tensor>& slots, int chunk, Microbatch microbatch) {
  const int slot = microbatch.value % static_cast<int>(slots.size());
  return {slots[index(slot)], chunk, slot};
}

/// A block of a chunk as its unit is called.
std::string block_name(const layout::Chunk& chunk, std::size_t block) {
  return fmt::format("h.{}", chunk.blocks.first + static_cast<std::int64_t>(block));
}

/// What a block of a chunk keeps in one of its slots, kept or not.
SavedNeeds needs_of(const layout::Recompute& recompute, const layout::Chunk& chunk, std::size_t block, bool kept) {
  const bool x = kept && (block > 0 || chunk.embedding);
  switch (recompute.kind) {
    case RecomputeKind::none:
      return {.x = x, .kept = kept};
    case RecomputeKind::selective:
      return {.x = x, .kept = kept, .pre_activation = false};
    case RecomputeKind::full:
      return {.x = x && block % index(recompute.every) == 0, .kept = false, .attention = false, .pre_activation = false};
  }
  throw BrokenRule("a way of making activations again is one of these");
}

/// What is made again of the `number`-th block of those that are run again together.
SavedNeeds again_of(const layout::Recompute& recompute, std::size_t number) {
  const bool full = recompute.kind == RecomputeKind::full;
  return {.x = full && number > 0, .kept = full, .attention = full, .pre_activation = recompute.kind != RecomputeKind::none};
}

}  // namespace

ModelMemory::ModelMemory(ModelShape shape) : shape_(std::move(shape)), stages_(shape_.chunks.size()) {
  for (std::size_t c = 0; c < stages_.size(); ++c) {
    const auto blocks = static_cast<std::size_t>(shape_.chunks[c].blocks.count);
    const layout::ChunkLives& lives = shape_.lives[c];
    StageMemory& stage = stages_[c];
    const bool full = shape_.recompute.kind == RecomputeKind::full;
    ensure(shape_.kept == layout::Tier::device || lives.deferred == 0, "what waits for weight gradients stays in memory");
    if (shape_.kept == layout::Tier::device)
      stage.saved.assign(index(full ? lives.kept : lives.activated), std::vector<BlockSaved>(blocks));
    const std::size_t together = full ? std::min(index(shape_.recompute.every), blocks) : 1;
    if (shape_.recompute.kind != RecomputeKind::none) again_.blocks.resize(std::max(again_.blocks.size(), together));
    stage.deferred.assign(index(lives.deferred), std::vector<BlockDeferred>(blocks));
    stage.inputs.resize(index(lives.inputs));
    stage.outputs.resize(index(lives.outputs));
    stage.gradients.resize(index(lives.gradients));
  }
}

void ModelMemory::declare_elsewhere(Arena& activations, const BlockSizes& sizes, parallel::Spill* spill) {
  ensure(spill != nullptr, "what is kept elsewhere has a place there");
  std::vector<KeptElsewhere::Chunk> chunks;
  for (std::size_t c = 0; c < stages_.size(); ++c) {
    const bool full = shape_.recompute.kind == RecomputeKind::full;
    KeptElsewhere::Chunk& chunk = chunks.emplace_back(
        KeptElsewhere::Chunk{.slots = shape_.lives[c].kept, .blocks = {}, .every = full ? index(shape_.recompute.every) : 1});
    for (std::size_t i = 0; i < index(static_cast<int>(shape_.chunks[c].blocks.count)); i += chunk.every)
      chunk.blocks.push_back(block_name(shape_.chunks[c], i));
  }
  const SavedNeeds needs = needs_of(shape_.recompute, {.blocks = {0, 1}, .embedding = true, .head = false}, 0, true);
  elsewhere_.declare(activations, *spill, shape_.kept, sizes, needs, chunks);
}

void ModelMemory::declare(Arena& activations, Arena& workspace, const arch::ModelConfig& config, const layout::ShardedDims& dims,
                          DType type, parallel::Spill* spill) {
  const Shape stream{shape_.rows.outside, dims.width};
  const BlockSizes sizes{dims, shape_.rows, type, *shape_.attention, shape_.tile_sums};
  bool head = false, immediate = false;
  if (shape_.kept != layout::Tier::device) declare_elsewhere(activations, sizes, spill);
  for (std::size_t c = 0; c < stages_.size(); ++c) {
    const layout::ChunkLives& lives = shape_.lives[c];
    StageMemory& stage = stages_[c];
    for (std::size_t slot = 0; slot < stage.saved.size(); ++slot) {
      const bool kept = slot < index(lives.kept);
      for (std::size_t i = 0; i < stage.saved[slot].size(); ++i) {
        const Arena::InLayer in(activations, block_name(shape_.chunks[c], i));
        model::declare(activations, stage.saved[slot][i], sizes, needs_of(shape_.recompute, shape_.chunks[c], i, kept));
      }
    }
    for (std::vector<BlockDeferred>& blocks : stage.deferred) {
      for (std::size_t i = 0; i < blocks.size(); ++i) {
        const Arena::InLayer in(activations, block_name(shape_.chunks[c], i));
        model::declare(activations, blocks[i], sizes, again_of(shape_.recompute, 0));
      }
    }
    for (Tensor& input : stage.inputs) activations.declare(input, "in", stream, type);
    for (Tensor& output : stage.outputs) activations.declare(output, "out", stream, type);
    for (Tensor& gradient : stage.gradients) activations.declare(gradient, "d_out", stream, type);
    head = head || shape_.chunks[c].head;
    immediate = immediate || lives.immediate;
  }
  for (std::size_t i = 0; i < again_.blocks.size(); ++i)
    model::declare(activations, again_.blocks[i], sizes, again_of(shape_.recompute, i));
  if (head) {
    const Arena::InLayer in(workspace, "head");
    model::declare(workspace, temporaries_.head, dims, shape_.rows, type, shape_.judgers, true);
  }
  model::declare(workspace, temporaries_.scratch, sizes,
                 {.input_backward = true, .weight_backward = immediate, .branch = config.dropout > 0});
  workspace.keep();
}

ModelMemory::Place ModelMemory::input(int chunk, Microbatch microbatch) const {
  return place_of(stages_[index(chunk)].inputs, chunk, microbatch);
}

ModelMemory::Place ModelMemory::output(int chunk, Microbatch microbatch) const {
  const std::vector<Tensor>& own = stages_[index(chunk)].outputs;
  return own.empty() ? input(chunk + 1, microbatch) : place_of(own, chunk, microbatch);
}

ModelMemory::Place ModelMemory::gradient(int chunk, Microbatch microbatch) const {
  const int owner = shape_.lives[index(chunk)].gradients_of;
  return place_of(stages_[index(owner)].gradients, owner, microbatch);
}

}  // namespace lockstep::model
