#include "model/stage.h"

#include <utility>

namespace lockstep::model {
namespace {

using PassKind = layout::Pass;
using RecomputeKind = layout::Recompute::Kind;

constexpr std::size_t matrices_of_a_block = 4;

/// Blocks [first_of(end), end) of a chunk are run again together.
template <class Index>
Index first_of(Index end, const layout::Recompute& recompute) {
  const auto every = static_cast<Index>(recompute.every);
  return (end - 1) / every * every;
}

/// What passes through blocks lease, in the order in which BlockWeights and LayerWeights do.
class LeaseList {
 public:
  void add(const std::vector<layout::Part>& parts) { all_.insert(all_.end(), parts.begin(), parts.end()); }
  void forward(const arch::BlockParts& block) {
    attention(block);
    if (block.mlp != block.attention) add(block.mlp);
    project(block, {arch::Role::up_weight, arch::Role::down_weight});
  }
  /// What is run again before a block's backward pass: from its input, or from the feed-forward layer's. That keeps its lease.
  void again(const arch::BlockParts& block, bool from_input) {
    if (from_input && block.mlp != block.attention) attention(block);
    add(block.mlp);
    project(block, {arch::Role::up_weight});
  }
  /// `again`: it was run again.
  void backward(const arch::BlockParts& block, bool again) {
    if (!again) add(block.mlp);
    project_back(block, {arch::Role::down_weight, arch::Role::up_weight});
    if (block.mlp != block.attention) add(block.attention);
    project_back(block, {arch::Role::attention_out_weight, arch::Role::qkv_weight});
  }
  std::vector<layout::Part> all() && { return std::move(all_); }

 private:
  void attention(const arch::BlockParts& block) {
    add(block.attention);
    project(block, {arch::Role::qkv_weight, arch::Role::attention_out_weight});
  }
  void project(const arch::BlockParts& block, std::initializer_list<arch::Role> roles) {
    for (const arch::Role role : roles) {
      if (const arch::TiledMatrix* matrix = block.find(role))
        for (const arch::Tile& tile : matrix->tiles) all_.push_back(tile.part);
    }
  }
  void project_back(const arch::BlockParts& block, std::initializer_list<arch::Role> roles) {
    for (const arch::Role role : roles) {
      const arch::TiledMatrix* matrix = block.find(role);
      for (std::size_t i = 0; matrix != nullptr && i < matrix->tiles.size(); ++i) all_.push_back(matrix->backward(i).part);
    }
  }
  std::vector<layout::Part> all_;
};

/// Of the backward pass through the blocks of `chunk`. `there`: the last ones need not be run again.
std::vector<layout::Part> backward_parts(const arch::PartMap& map, const layout::Chunk& chunk, const layout::Recompute& recompute,
                                         bool there) {
  LeaseList parts;
  const bool full = recompute.kind == RecomputeKind::full;
  const auto block = [&](std::int64_t i) -> const arch::BlockParts& {
    return map.blocks[static_cast<std::size_t>(chunk.blocks.first + i)];
  };
  for (std::int64_t end = chunk.blocks.count; end > 0;) {
    const std::int64_t first = first_of(end, recompute);
    const bool again = recompute.kind != RecomputeKind::none && !(there && end == chunk.blocks.count);
    for (std::int64_t i = first; again && i + 1 < end; ++i) parts.forward(block(i));
    for (std::int64_t i = end; i-- > first;) {
      const bool itself = again && i + 1 == end;
      if (itself) parts.again(block(i), full);
      parts.backward(block(i), itself);
    }
    end = first;
  }
  return std::move(parts).all();
}

layout::ChunkParts parts_of(const arch::PartMap& map, const layout::Chunk& chunk, const layout::Recompute& recompute) {
  LeaseList forward;
  if (chunk.embedding) forward.add(map.embedding);
  for (std::int64_t i = chunk.blocks.first; i < chunk.blocks.end(); ++i) forward.forward(map.blocks[static_cast<std::size_t>(i)]);
  if (chunk.head) forward.add(map.head);
  return {.forward = std::move(forward).all(),
          .backward = backward_parts(map, chunk, recompute, false),
          .backward_at_once = backward_parts(map, chunk, recompute, true)};
}

}  // namespace

std::vector<layout::ChunkParts> chunk_parts(const arch::PartMap& map, const std::vector<layout::Chunk>& chunks,
                                            const layout::Recompute& recompute) {
  std::vector<layout::ChunkParts> parts;
  for (const layout::Chunk& chunk : chunks) parts.push_back(parts_of(map, chunk, recompute));
  return parts;
}

std::vector<std::unique_ptr<Stage>> make_stages(const Context& context, parallel::GradientStore& gradients, ModelMemory& memory) {
  std::vector<std::unique_ptr<Stage>> stages;
  for (int c = 0; c < std::ssize(memory.shape().chunks); ++c) {
    stages.push_back(std::make_unique<Stage>(context, gradients, memory, c));
  }
  return stages;
}

Stage::Stage(const Context& context, parallel::GradientStore& gradients, ModelMemory& memory, int chunk)
    : context_(context),
      gradients_(gradients),
      memory_(memory.stage(chunk)),
      scratch_(memory.temporaries().scratch),
      again_(memory.again()),
      elsewhere_(memory.elsewhere()),
      recompute_(memory.shape().recompute),
      number_(chunk),
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

BlockSaved Stage::kept(Microbatch microbatch, std::size_t block) const {
  if (elsewhere_.used()) return elsewhere_.at(key(microbatch, block));
  const auto m = static_cast<std::size_t>(microbatch.value);
  BlockSaved saved = memory_.saved[m % kept_][block];
  const BlockSaved& products = memory_.saved[m % memory_.saved.size()][block];
  saved.attention = products.attention;
  saved.pre_activation = products.pre_activation;
  return saved;
}

void Stage::bring(Microbatch microbatch, std::size_t first) {
  if (!elsewhere_.used()) return;
  elsewhere_.bring(key(microbatch, first));
  if (first > 0) elsewhere_.expect(key(microbatch, first_of(first, recompute_)));
}

BlockSaved Stage::saved(Microbatch microbatch, std::size_t block, const Tensor& input, const Deferred* deferred) const {
  BlockSaved saved;
  if (recompute_.kind == RecomputeKind::full) {
    const std::size_t number = block % static_cast<std::size_t>(recompute_.every);
    saved = again_.blocks[number];
    if (number == 0) saved.x = kept(microbatch, block).x;
  } else {
    saved = kept(microbatch, block);
    if (recompute_.kind == RecomputeKind::selective) saved.pre_activation = again_.blocks.front().pre_activation;
  }
  if (block == 0 && !chunk_.embedding) saved.x = input;
  if (deferred != nullptr) {
    const BlockDeferred& later = (*deferred)[block];
    if (later.attention) saved.attention = later.attention;
    if (later.pre_activation) saved.pre_activation = later.pre_activation;
  }
  return saved;
}

void Stage::forward(const Pass& pass, Microbatch microbatch, const Tensor& input, const Tensor& output) {
  const std::int64_t rows = output.rows();
  if (leaves(0)) elsewhere_.take(key(microbatch, 0));
  BlockSaved mine = saved(microbatch, 0, input);
  ensure(rows == stream_rows(pass) && rows <= mine.x.rows(), "a pass has at most the rows its memory was declared for");
  if (chunk_.embedding) {
    const LeasedWeights w(context_.parameters, parts_.embedding, PassKind::forward);
    embedding_.forward(pass, w.weights(), input, mine.x.slice_rows(0, rows), scratch_);
  }
  for (std::size_t i = 0; i < blocks_.size(); ++i) {
    BlockWeights w = weights(i, PassKind::forward);
    const bool last = i + 1 == blocks_.size();
    if (!last && leaves(i + 1)) elsewhere_.take(key(microbatch, i + 1));
    BlockSaved next = last ? BlockSaved{} : saved(microbatch, i + 1, input);
    blocks_[i].forward(pass, w, mine, last ? output : next.x.slice_rows(0, rows), scratch_);
    if (pass.training && leaves(i)) elsewhere_.put_away(key(microbatch, i));
    mine = next;
  }
  again_.left_by = pass.training ? MadeAgain::Owner{number_, microbatch} : MadeAgain::Owner{};
}

void Stage::loss(const Pass& pass, Microbatch microbatch, const Tensor& x, const Objective& objective, const Tensor& d) {
  const LeasedWeights w(context_.parameters, parts_.head, PassKind::forward);
  OpenGradients gradient(gradients_, context_.parameters.units(), map_.head_reads, microbatch);
  head_.loss_and_gradient(pass, x, objective, w.weights(), {gradient.set(), context_.sums}, d);
  gradient.close();
}

void Stage::embedding_backward(const Pass& pass, Microbatch microbatch, const Tensor& tokens, const Tensor& d) {
  OpenGradients gradient(gradients_, context_.parameters.units(), map_.embedding, microbatch);
  embedding_.backward(pass, gradient.set(), gradients_.open_rows(microbatch), tokens, d, scratch_, microbatch.value);
  gradient.close();
}

void Stage::run_again(const Pass& pass, Microbatch microbatch, const Tensor& input, std::size_t first, std::size_t last,
                      const Deferred* deferred) {
  BlockSaved mine = saved(microbatch, first, input, deferred);
  for (std::size_t i = first; i < last; ++i) {
    BlockWeights w = weights(i, PassKind::backward);
    BlockSaved next = saved(microbatch, i + 1, input, deferred);
    blocks_[i].forward(pass, w, mine, next.x.slice_rows(0, stream_rows(pass)), scratch_);
    mine = next;
  }
}

void Stage::blocks_backward(const Pass& pass, Microbatch microbatch, const Tensor& input, const Tensor& d,
                            const Deferred* deferred, bool there) {
  for (std::size_t end = blocks_.size(); end > 0;) {
    const std::size_t first = first_of(end, recompute_);
    const bool again = recompute_.kind != RecomputeKind::none && !(there && end == blocks_.size());
    bring(microbatch, first);
    if (again) run_again(pass, microbatch, input, first, end - 1, deferred);
    for (std::size_t i = end; i-- > first;) {
      BlockWeights w = weights(i, PassKind::backward);
      BlockSaved mine = saved(microbatch, i, input, deferred);
      if (again && i + 1 == end) {
        recompute_.kind == RecomputeKind::full ? blocks_[i].run_again(pass, w, mine, d.rows(), scratch_)
                                               : blocks_[i].activate_again(pass, w, mine, d.rows(), scratch_);
      }
      OpenGradients gradient(gradients_, context_.parameters.units(), unit(i), microbatch);
      ops::WeightSink& sink = deferred != nullptr ? static_cast<ops::WeightSink&>(queues(microbatch)[i]) : context_.sums;
      blocks_[i].backward(pass, w, {gradient.set(), sink, context_.grid(&Sums::tokens), pass.parts}, mine, d,
                          deferred != nullptr ? BackwardScratch(scratch_, (*deferred)[i]) : BackwardScratch(scratch_));
      if (deferred == nullptr) gradient.close();
    }
    end = first;
  }
}

void Stage::backward(const Pass& pass, Microbatch microbatch, const Tensor& input, const Tensor& d) {
  const bool there = std::exchange(again_.left_by, {}) == MadeAgain::Owner{number_, microbatch};
  blocks_backward(pass, microbatch, input, d, nullptr, there);
  if (chunk_.embedding) embedding_backward(pass, microbatch, input, d);
}

void Stage::backward_input(const Pass& pass, Microbatch microbatch, const Tensor& input, const Tensor& d) {
  again_.left_by = {};
  const Deferred& deferred = memory_.deferred[static_cast<std::size_t>(microbatch.value) % memory_.deferred.size()];
  blocks_backward(pass, microbatch, input, d, &deferred, false);
  if (chunk_.embedding) embedding_backward(pass, microbatch, input, d);
}

void Stage::backward_weight(Microbatch microbatch) {
  for (std::size_t i = blocks_.size(); i-- > 0;) {
    queues(microbatch)[i].run(context_.sums);
    gradients_.close(unit(i), microbatch);
  }
}

void Stage::evaluate(const Pass& pass, const Tensor& x, const Objective& objective) {
  const LeasedWeights w(context_.parameters, parts_.head, PassKind::forward);
  head_.loss(pass, x, objective, w.weights());
}

}  // namespace lockstep::model
