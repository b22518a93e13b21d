#include "model/stage.h"

namespace lockstep::model {
namespace {

using PassKind = layout::Pass;

constexpr std::size_t matrices_of_a_block = 4;

layout::ChunkUnits units_of(const arch::UnitMap& map, const layout::Chunk& chunk) {
  const auto first = map.blocks.begin() + chunk.blocks.first, last = map.blocks.begin() + chunk.blocks.end();
  layout::ChunkUnits units;
  if (chunk.embedding) units.forward = map.embedding_reads;
  units.forward.insert(units.forward.end(), first, last);
  if (chunk.head) units.forward.insert(units.forward.end(), map.head_reads.begin(), map.head_reads.end());
  units.backward.assign(std::reverse_iterator(last), std::reverse_iterator(first));
  return units;
}

}  // namespace

std::vector<layout::ChunkUnits> chunk_units(const arch::UnitMap& map, const std::vector<layout::Chunk>& chunks) {
  std::vector<layout::ChunkUnits> units;
  for (const layout::Chunk& chunk : chunks) units.push_back(units_of(map, chunk));
  return units;
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
    const LeasedWeights w(context_.parameters, map_.embedding_reads, PassKind::forward);
    embedding_.forward(pass, w.weights(), input, mine.x.slice_rows(0, rows), scratch_);
  }
  for (std::size_t i = 0; i < blocks_.size(); ++i) {
    const LeasedWeights w(context_.parameters, unit(i), PassKind::forward);
    const bool last = i + 1 == blocks_.size();
    BlockSaved next = last ? BlockSaved{} : saved(microbatch, i + 1, input);
    blocks_[i].forward(pass, w.weights(), mine, last ? output : next.x.slice_rows(0, rows), scratch_);
    mine = next;
  }
}

void Stage::loss(const Pass& pass, Microbatch microbatch, const Tensor& x, const Objective& objective, const Tensor& d) {
  const LeasedWeights w(context_.parameters, map_.head_reads, PassKind::forward);
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
    const LeasedWeights w(context_.parameters, unit(i), PassKind::backward);
    OpenGradients gradient(gradients_, context_.parameters.units(), unit(i), microbatch);
    BlockSaved mine = saved(microbatch, i, input);
    blocks_[i].backward(pass, w.weights(), {gradient.set(), sink_}, mine, d, BackwardScratch(scratch_));
    gradient.close();
  }
  if (chunk_.embedding) embedding_backward(pass, microbatch, input, d);
}

void Stage::backward_input(const Pass& pass, Microbatch microbatch, const Tensor& input, const Tensor& d) {
  const auto slot = static_cast<std::size_t>(microbatch.value) % memory_.deferred.size();
  for (std::size_t i = blocks_.size(); i-- > 0;) {
    const LeasedWeights w(context_.parameters, unit(i), PassKind::backward);
    const OpenGradients gradient(gradients_, context_.parameters.units(), unit(i), microbatch);
    BlockSaved mine = saved(microbatch, i, input);
    blocks_[i].backward(pass, w.weights(), {gradient.set(), queues(microbatch)[i]}, mine, d,
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
  const LeasedWeights w(context_.parameters, map_.head_reads, PassKind::forward);
  head_.loss(pass.grid(), x, objective, w.weights());
}

}  // namespace lockstep::model
