#include "model/stage.h"

#include <algorithm>

#include "base/timer.h"

namespace lockstep::model {

using arch::Role;
using PassKind = layout::Pass;

Stage::Stage(const Context& context, parallel::GradientStore& gradients, const Tensor* embedded_rows, ops::WeightSink& sink,
             const StageShape& shape)
    : context_(context),
      gradients_(gradients),
      sink_(sink),
      shape_(shape),
      map_(arch::unit_map(context.config)),
      embedding_(context),
      head_(context),
      slots_(static_cast<std::size_t>(shape.live)),
      embedded_rows_(embedded_rows) {
  for (int layer = 0; layer < context.config.layers; ++layer) blocks_.emplace_back(context, layer);
  for (Slot& slot : slots_) slot.blocks.resize(blocks_.size());
  forward_units_.push_back(map_.embedding);
  if (context.config.tied) forward_units_.push_back(map_.tied);
  forward_units_.insert(forward_units_.end(), map_.blocks.begin(), map_.blocks.end());
  forward_units_.push_back(map_.head);
  if (context.config.tied) forward_units_.push_back(map_.tied);
  backward_units_.assign(map_.blocks.rbegin(), map_.blocks.rend());
}

void Stage::declare(Arena& activations, Arena& workspace) {
  const std::int64_t rows = shape_.samples * shape_.positions;
  const std::int64_t width = context_.dims.width;
  const DType type = context_.parameters.dtype();
  for (Slot& slot : slots_) {
    for (BlockSaved& saved : slot.blocks) model::declare(activations, saved, context_.dims, rows, type);
    activations.declare(slot.out, "out", Shape{rows, width}, type);
    activations.declare(slot.d, "d_out", Shape{rows, width}, type);
  }
  activations.declare(tokens_, "tokens", Shape{rows * shape_.microbatches}, DType::i32);
  head_.declare(workspace, rows, true);
  model::declare(workspace, scratch_, context_.dims, rows, type, {.backward = true, .branch = context_.config.dropout > 0});
  workspace.keep();
}

WeightSet Stage::leased(const parallel::Lease& lease, UnitIndex unit) const {
  return {context_.parameters.units()[static_cast<std::size_t>(unit.value)], lease.flat()};
}

Tensor Stage::step_tokens(Microbatch microbatch, std::int64_t rows) const {
  return tokens_.flat(microbatch.value * shape_.samples * shape_.positions, rows);
}

Tensor Stage::run_blocks(const Pass& pass, Slot& slot, const Tensor& tokens) {
  const std::int64_t rows = pass.rows();
  ensure(rows <= slot.out.rows(), "a pass has at most the rows the stage was declared for");
  {
    const parallel::Lease tables = context_.parameters.lease(map_.embedding, PassKind::forward);
    const WeightSet w = leased(tables, map_.embedding);
    const Tensor x = slot.blocks.front().x.slice_rows(0, rows);
    if (context_.config.tied) {
      const parallel::Lease tied = context_.parameters.lease(map_.tied, PassKind::forward);
      embedding_.forward(pass, w, leased(tied, map_.tied)[Role::token_table], tokens, x);
    } else {
      embedding_.forward(pass, w, w[Role::token_table], tokens, x);
    }
  }
  for (std::size_t i = 0; i < blocks_.size(); ++i) {
    const parallel::Lease lease = context_.parameters.lease(map_.blocks[i], PassKind::forward);
    const Tensor& out = i + 1 < blocks_.size() ? slot.blocks[i + 1].x : slot.out;
    blocks_[i].forward(pass, leased(lease, map_.blocks[i]), slot.blocks[i], out.slice_rows(0, rows), scratch_);
  }
  return slot.out.slice_rows(0, rows);
}

double Stage::forward(const Pass& pass, Microbatch microbatch, const Tensor& tokens, const Tensor& targets, const Tensor& scale) {
  Slot& mine = slot(microbatch);
  const std::int64_t rows = pass.rows();
  std::copy_n(elements<std::int32_t>(tokens).data(), rows, elements<std::int32_t>(step_tokens(microbatch, rows)).data());
  const Tensor x = run_blocks(pass, mine, tokens);

  gradient_seconds_ = 0;
  const ScopedTime timed(gradient_seconds_);
  const parallel::Lease lease = context_.parameters.lease(map_.head, PassKind::forward);
  const WeightSet w = leased(lease, map_.head);
  const parallel::OpenGradient gradient = gradients_.open(map_.head, microbatch);
  const WeightSet d_w(context_.parameters.units()[static_cast<std::size_t>(map_.head.value)], gradient.flat);
  double loss = 0;
  const Tensor d = mine.d.slice_rows(0, rows);
  if (context_.config.tied) {
    const parallel::Lease tied = context_.parameters.lease(map_.tied, PassKind::forward);
    const parallel::OpenGradient d_tied = gradients_.open(map_.tied, microbatch);
    const WeightSet d_table(context_.parameters.units()[static_cast<std::size_t>(map_.tied.value)], d_tied.flat);
    loss = head_.loss_and_gradient(x, targets, scale, {w, leased(tied, map_.tied)[Role::token_table]},
                                   {d_w, d_table[Role::token_table], gradient.accumulate, d_tied.accumulate}, sink_, d);
    gradients_.close(map_.head, microbatch);
    gradients_.close(map_.tied, microbatch);
  } else {
    loss = head_.loss_and_gradient(x, targets, scale, {w, w[Role::head_weight]},
                                   {d_w, d_w[Role::head_weight], gradient.accumulate, gradient.accumulate}, sink_, d);
    gradients_.close(map_.head, microbatch);
  }
  return loss;
}

void Stage::backward(const Pass& pass, Microbatch microbatch) {
  Slot& mine = slot(microbatch);
  const std::int64_t rows = pass.rows();
  const Tensor d = mine.d.slice_rows(0, rows);
  const auto unit = [&](UnitIndex index) -> const layout::Unit& {
    return context_.parameters.units()[static_cast<std::size_t>(index.value)];
  };
  for (std::size_t i = blocks_.size(); i-- > 0;) {
    const UnitIndex index = map_.blocks[i];
    const parallel::Lease lease = context_.parameters.lease(index, PassKind::backward);
    const parallel::OpenGradient gradient = gradients_.open(index, microbatch);
    blocks_[i].backward(pass, leased(lease, index), WeightSet(unit(index), gradient.flat), gradient.accumulate, sink_,
                        mine.blocks[i], d, scratch_);
    gradients_.close(index, microbatch);
  }
  const parallel::OpenGradient gradient = gradients_.open(map_.embedding, microbatch);
  const WeightSet d_w(unit(map_.embedding), gradient.flat);
  const Tensor tokens = step_tokens(microbatch, rows);
  if (!context_.config.tied) {
    if (!gradient.accumulate) context_.ops.elementwise().zero(d_w[Role::token_table]);
    embedding_.backward(pass, d_w, d_w[Role::token_table], gradient.accumulate, tokens, d);
  } else {
    embedding_.backward(pass, d_w, *embedded_rows_, gradient.accumulate, tokens, d);
  }
  gradients_.close(map_.embedding, microbatch);
}

double Stage::evaluate(const Pass& pass, const Tensor& tokens, const Tensor& targets) {
  const Tensor x = run_blocks(pass, slots_.front(), tokens);
  const parallel::Lease lease = context_.parameters.lease(map_.head, PassKind::forward);
  const WeightSet w = leased(lease, map_.head);
  if (!context_.config.tied) return head_.loss(x, targets, {w, w[Role::head_weight]});
  const parallel::Lease tied = context_.parameters.lease(map_.tied, PassKind::forward);
  return head_.loss(x, targets, {w, leased(tied, map_.tied)[Role::token_table]});
}

}  // namespace lockstep::model
