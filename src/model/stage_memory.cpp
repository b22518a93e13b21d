#include "model/stage_memory.h"

#include <algorithm>

namespace lockstep::model {
namespace {

std::size_t index(int slots) { return static_cast<std::size_t>(slots); }

ModelMemory::Place place_of(const std::vector<Tensor>& slots, int chunk, Microbatch microbatch) {
  const int slot = microbatch.value % static_cast<int>(slots.size());
  return {slots[index(slot)], chunk, slot};
}

}  // namespace

ModelMemory::ModelMemory(ModelShape shape) : shape_(std::move(shape)), stages_(shape_.chunks.size()) {
  for (std::size_t c = 0; c < stages_.size(); ++c) {
    const auto blocks = static_cast<std::size_t>(shape_.chunks[c].blocks.count);
    const layout::ChunkLives& lives = shape_.lives[c];
    StageMemory& stage = stages_[c];
    stage.saved.assign(index(lives.activated), std::vector<BlockSaved>(blocks));
    stage.deferred.assign(index(lives.deferred), std::vector<BlockDeferred>(blocks));
    stage.inputs.resize(index(lives.inputs));
    stage.outputs.resize(index(lives.outputs));
    stage.gradients.resize(index(lives.gradients));
  }
}

void ModelMemory::declare(Arena& activations, Arena& workspace, const arch::ModelConfig& config, const layout::ShardedDims& dims,
                          DType type) {
  const Shape stream{shape_.rows.outside, dims.width};
  const BlockSizes sizes{dims, shape_.rows, type, *shape_.attention};
  bool head = false, immediate = false;
  for (std::size_t c = 0; c < stages_.size(); ++c) {
    const layout::ChunkLives& lives = shape_.lives[c];
    StageMemory& stage = stages_[c];
    for (std::size_t slot = 0; slot < stage.saved.size(); ++slot) {
      const bool kept = slot < index(lives.kept);
      for (std::size_t i = 0; i < stage.saved[slot].size(); ++i) {
        const bool x = i > 0 || shape_.chunks[c].embedding;
        model::declare(activations, stage.saved[slot][i], sizes, {.x = x, .kept = kept});
      }
    }
    for (std::vector<BlockDeferred>& blocks : stage.deferred) {
      for (BlockDeferred& block : blocks) model::declare(activations, block, sizes);
    }
    for (Tensor& input : stage.inputs) activations.declare(input, "in", stream, type);
    for (Tensor& output : stage.outputs) activations.declare(output, "out", stream, type);
    for (Tensor& gradient : stage.gradients) activations.declare(gradient, "d_out", stream, type);
    head = head || shape_.chunks[c].head;
    immediate = immediate || lives.immediate;
  }
  if (head) model::declare(workspace, temporaries_.head, dims, shape_.rows, type, true);
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
