#include "model/stage.h"

namespace lockstep::model {
namespace {

using PassKind = layout::Pass;

constexpr std::size_t matrices_of_a_block = 4;

void append(std::vector<layout::Part>& to, const std::vector<layout::Part>& parts) {
  to.insert(to.end(), parts.begin(), parts.end());
}

/// As BlockWeights leases them.
void append(std::vector<layout::Part>& to, const std::vector<layout::Part>& first, const std::vector<layout::Part>& second) {
  append(to, first);
  if (second != first) append(to, second);
}

layout::ChunkParts parts_of(const arch::PartMap& map, const layout::Chunk& chunk) {
  layout::ChunkParts parts;
  if (chunk.embedding) append(parts.forward, map.embedding);
  for (std::int64_t i = chunk.blocks.first; i < chunk.blocks.end(); ++i) {
    const arch::BlockParts& block = map.blocks[static_cast<std::size_t>(i)];
    append(parts.forward, block.attention, block.mlp);
  }
  if (chunk.head) append(parts.forward, map.head);
  for (std::int64_t i = chunk.blocks.end(); i-- > chunk.blocks.first;) {
    const arch::BlockParts& block = map.blocks[static_cast<std::size_t>(i)];
    append(parts.backward, block.mlp, block.attention);
  }
  return parts;
}

}  // namespace

std::vector<layout::ChunkParts> chunk_parts(const arch::PartMap& map, const std::vector<layout::Chunk>& chunks) {
  std::vector<layout::ChunkParts> parts;
  for (const layout::Chunk& chunk : chunks) parts.push_back(parts_of(map, chunk));
  return parts;
}

std::vector<std::unique_ptr<Stage>> make_stages(const Context& context, parallel::GradientStore& gradients, ops::WeightSink& sink,
                                                ModelMemory& memory) {
  std::vector<std::unique_ptr<Stage>> stages;
  for (int c = 0; c < std::ssize(memory.shape().chunks); ++c) {
    stages.push_back(std::make_unique<Stage>(context, gradients, sink, memory, c));
  }
  return stages;
}

Stage::Stage(const Context& context, parallel::GradientStore& gradients, ops::WeightSink& sink, ModelMemory& memory, int chunk)
    : context_(context),
      gradients_(gradients),
      sink_(sink),
      memory_(memory.stage(chunk)),
      scratch_(memory.temporaries().scratch),
      chunk_(memory.shape().chunks[static_cast<std::size_t>(chunk)]),
      kept_(static_cast<std::size_t>(memory.shape().lives[static_cast<std::size_t>(chunk)].kept)),
      map_(arch::unit_map(context.config)),
      parts_(arch::part_map(context.config, context.parameters.units(), context.leases)),
      embedding_(context),
      head_(context, memory.temporaries().head),
      queues_(memory_.deferred.size()) {
  ensure(chunk_.blocks.count > 0, "a chunk has a block");
  for (std::int64_t i = 0; i < chunk_.blocks.count; ++i) {
    blocks_.emplace_back(context, static_cast<int>(chunk_.blocks.first + i));
  }
  for (std::vector<WeightQueue>& queues : queues_) {
    for (std::size_t i = 0; i < blocks_.size(); ++i) queues.emplace_back(matrices_of_a_block);
  }
}

BlockSaved Stage::saved(Microbatch microbatch, std::size_t block, const Tensor& input) const {
  const auto m = static_cast<std::size_t>(microbatch.value);
  const BlockSaved& products = memory_.saved[m % memory_.saved.size()][block];
  BlockSaved saved = memory_.saved[m % kept_][block];
  saved.attention = products.attention;
  saved.pre_activation = products.pre_activation;
  if (block == 0 && !chunk_.embedding) saved.x = input;
  return saved;
}

void Stage::forward(const Pass& pass, Microbatch microbatch, const Tensor& input, const Tensor& output) {
  const std::int64_t rows = output.rows();
  BlockSaved mine = saved(microbatch, 0, input);
  ensure(rows == stream_rows(pass) && rows <= mine.x.rows(), "a pass has at most the rows its memory was declared for");
  if (chunk_.embedding) {
    const LeasedWeights w(context_.parameters, parts_.embedding, PassKind::forward);
    embedding_.forward(pass, w.weights(), input, mine.x.slice_rows(0, rows), scratch_);
  }
  for (std::size_t i = 0; i < blocks_.size(); ++i) {
    BlockWeights w = weights(i, PassKind::forward);
    const bool last = i + 1 == blocks_.size();
    BlockSaved next = last ? BlockSaved{} : saved(microbatch, i + 1, input);
    blocks_[i].forward(pass, w, mine, last ? output : next.x.slice_rows(0, rows), scratch_);
    mine = next;
  }
}

void Stage::loss(const Pass& pass, Microbatch microbatch, const Tensor& x, const Objective& objective, const Tensor& d) {
  const LeasedWeights w(context_.parameters, parts_.head, PassKind::forward);
  OpenGradients gradient(gradients_, context_.parameters.units(), map_.head_reads, microbatch);
  head_.loss_and_gradient(pass.grid(), x, objective, w.weights(), {gradient.set(), sink_}, d);
  gradient.close();
}

void Stage::embedding_backward(const Pass& pass, Microbatch microbatch, const Tensor& tokens, const Tensor& d) {
  OpenGradients gradient(gradients_, context_.parameters.units(), map_.embedding, microbatch);
  embedding_.backward(pass, gradient.set(), gradients_.open_rows(microbatch), tokens, d, scratch_);
  gradient.close();
}

void Stage::backward(const Pass& pass, Microbatch microbatch, const Tensor& input, const Tensor& d) {
  for (std::size_t i = blocks_.size(); i-- > 0;) {
    BlockWeights w = weights(i, PassKind::backward);
    OpenGradients gradient(gradients_, context_.parameters.units(), unit(i), microbatch);
    BlockSaved mine = saved(microbatch, i, input);
    blocks_[i].backward(pass, w, {gradient.set(), sink_}, mine, d, BackwardScratch(scratch_));
    gradient.close();
  }
  if (chunk_.embedding) embedding_backward(pass, microbatch, input, d);
}

void Stage::backward_input(const Pass& pass, Microbatch microbatch, const Tensor& input, const Tensor& d) {
  const auto slot = static_cast<std::size_t>(microbatch.value) % memory_.deferred.size();
  for (std::size_t i = blocks_.size(); i-- > 0;) {
    BlockWeights w = weights(i, PassKind::backward);
    const OpenGradients gradient(gradients_, context_.parameters.units(), unit(i), microbatch);
    BlockSaved mine = saved(microbatch, i, input);
    blocks_[i].backward(pass, w, {gradient.set(), queues(microbatch)[i]}, mine, d,
                        BackwardScratch(scratch_, memory_.deferred[slot][i]));
  }
  if (chunk_.embedding) embedding_backward(pass, microbatch, input, d);
}

void Stage::backward_weight(Microbatch microbatch) {
  for (std::size_t i = blocks_.size(); i-- > 0;) {
    queues(microbatch)[i].run(sink_);
    gradients_.close(unit(i), microbatch);
  }
}

void Stage::evaluate(const Pass& pass, const Tensor& x, const Objective& objective) {
  const LeasedWeights w(context_.parameters, parts_.head, PassKind::forward);
  head_.loss(pass.grid(), x, objective, w.weights());
}

}  // namespace lockstep::model
