#include "model/stage.h"

#include <optional>
#include <utility>

namespace lockstep::model {
namespace {

using PassKind = layout::Pass;
using RecomputeKind = layout::Recompute::Kind;

/// Weight gradients of a block, at most.
std::size_t works_of_a_block(const Context& context) {
  constexpr std::size_t matrices = 4, of_an_adapter = 2;
  return matrices + of_an_adapter * context.adapters.size();
}

/// Blocks [first_of(end), end) of a chunk are run again together.
std::size_t first_of(std::size_t end, const layout::Recompute& recompute) {
  const auto every = static_cast<std::size_t>(recompute.every);
  return (end - 1) / every * every;
}

/// The way back through the blocks of a chunk. `there`: the last ones need not be run again.
std::vector<BlockVisit> way_back(std::int64_t blocks, const layout::Recompute& recompute, bool there) {
  using Kind = BlockVisit::Kind;
  const Kind last = recompute.kind == RecomputeKind::full ? Kind::run_again : Kind::activate_again;
  std::vector<BlockVisit> visits;
  const auto count = static_cast<std::size_t>(blocks);
  for (std::size_t end = count; end > 0;) {
    const std::size_t first = first_of(end, recompute);
    const bool again = recompute.kind != RecomputeKind::none && !(there && end == count);
    visits.push_back({Kind::bring, first});
    for (std::size_t i = first; again && i + 1 < end; ++i) visits.push_back({Kind::forward, i});
    if (again) visits.push_back({last, end - 1});
    for (std::size_t i = end; i-- > first;) visits.push_back({Kind::backward, i});
    end = first;
  }
  return visits;
}

/// What visits lease, as they do it by BlockWeights and LayerWeights.
class LeaseList {
 public:
  void add(const std::vector<layout::Part>& parts) { all_.insert(all_.end(), parts.begin(), parts.end()); }
  void visit(const arch::BlockParts& block, BlockVisit::Kind kind) {
    using Kind = BlockVisit::Kind;
    using arch::Role;
    if (kind == Kind::bring) return;
    const bool back = kind == Kind::backward;
    const auto layer = [&](const std::vector<layout::Part>& parts, Role first, Role second, bool both) {
      if (leased_ == nullptr || *leased_ != parts) add(parts);
      leased_ = &parts;
      tiles(block, first, back);
      if (both) tiles(block, second, back);
    };
    if (back) layer(block.mlp, Role::down_weight, Role::up_weight, true);
    if (back) return layer(block.attention, Role::attention_out_weight, Role::qkv_weight, true);
    if (kind != Kind::activate_again) layer(block.attention, Role::qkv_weight, Role::attention_out_weight, true);
    const bool down = kind == Kind::forward || (kind == Kind::run_again && block.post_norm);
    layer(block.mlp, Role::up_weight, Role::down_weight, down);
  }
  std::vector<layout::Part> all() && { return std::move(all_); }

 private:
  void tiles(const arch::BlockParts& block, arch::Role role, bool back) {
    const arch::TiledMatrix* matrix = block.find(role);
    for (std::size_t i = 0; matrix != nullptr && i < matrix->tiles.size(); ++i)
      all_.push_back(back ? matrix->backward(i).part : matrix->tiles[i].part);
  }
  std::vector<layout::Part> all_;
  const std::vector<layout::Part>* leased_ = nullptr;
};

layout::ChunkParts parts_of(const arch::PartMap& map, const layout::Chunk& chunk, const layout::Recompute& recompute) {
  const auto block = [&](std::int64_t i) -> const arch::BlockParts& {
    return map.blocks[static_cast<std::size_t>(chunk.blocks.first + i)];
  };
  const auto back = [&](bool there) {
    LeaseList list;
    for (const auto& [kind, i] : way_back(chunk.blocks.count, recompute, there))
      list.visit(block(static_cast<std::int64_t>(i)), kind);
    return std::move(list).all();
  };
  LeaseList forward;
  if (chunk.embedding) forward.add(map.embedding);
  for (std::int64_t i = 0; i < chunk.blocks.count; ++i) forward.visit(block(i), BlockVisit::Kind::forward);
  if (chunk.head) forward.add(map.head);
  return {.forward = std::move(forward).all(), .backward = back(false), .backward_at_once = back(true)};
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
      back_(way_back(chunk_.blocks.count, recompute_, false)),
      back_at_once_(way_back(chunk_.blocks.count, recompute_, true)),
      embedding_(context),
      head_(context, memory.temporaries().head),
      queues_(memory_.deferred.size()) {
  ensure(chunk_.blocks.count > 0, "a chunk has a block");
  for (std::int64_t i = 0; i < chunk_.blocks.count; ++i) {
    blocks_.emplace_back(context, static_cast<int>(chunk_.blocks.first + i));
  }
  for (std::vector<WeightQueue>& queues : queues_) {
    for (std::size_t i = 0; i < blocks_.size(); ++i) queues.emplace_back(works_of_a_block(context));
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
    BlockWeights w(context_.parameters, parts_of(i), PassKind::forward);
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
  OpenGradients gradient(gradients_, context_.parameters.units(), map_.head_learns, microbatch);
  head_.loss_and_gradient(pass, x, objective, w.weights(), {gradient.set(), context_.sums}, d);
  gradient.close();
}

void Stage::embedding_backward(const Pass& pass, Microbatch microbatch, const Tensor& tokens, const Tensor& d) {
  if (map_.embedding_learns.empty() && !map_.trains_tied()) return;
  OpenGradients gradient(gradients_, context_.parameters.units(), map_.embedding_learns, microbatch);
  embedding_.backward(pass, gradient.set(), gradients_.open_rows(microbatch), tokens, d, scratch_, microbatch.value);
  gradient.close();
}

void Stage::blocks_backward(const Pass& pass, Microbatch microbatch, const Tensor& input, const Tensor& d,
                            const Deferred* deferred, bool there) {
  using Kind = BlockVisit::Kind;
  std::optional<BlockWeights> w;
  std::size_t leased = 0;
  for (const auto& [kind, i] : there ? back_at_once_ : back_) {
    if (kind == Kind::bring) {
      w.reset();
      bring(microbatch, i);
      continue;
    }
    if (!w || leased != i) w.emplace(context_.parameters, parts_of(i), PassKind::backward);
    leased = i;
    BlockSaved mine = saved(microbatch, i, input, deferred);
    if (kind == Kind::forward) {
      const Tensor out = saved(microbatch, i + 1, input, deferred).x.slice_rows(0, d.rows());
      blocks_[i].forward(pass, *w, mine, out, scratch_);
    } else if (kind != Kind::backward) {
      blocks_[i].run_again(pass, *w, mine, d.rows(), scratch_, kind == Kind::run_again);
    } else {
      OpenGradients gradient(gradients_, context_.parameters.units(), unit(i), microbatch);
      ops::WeightSink& sink = deferred != nullptr ? static_cast<ops::WeightSink&>(queues(microbatch)[i]) : context_.sums;
      blocks_[i].backward(pass, *w, {gradient.set(), sink, context_.grid(&Sums::tokens), pass.parts}, mine, d,
                          deferred != nullptr ? BackwardScratch(scratch_, (*deferred)[i]) : BackwardScratch(scratch_));
      if (deferred == nullptr) gradient.close();
    }
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
