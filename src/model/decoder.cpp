#include "model/decoder.h"

namespace lockstep::model {

using arch::Role;
using PassKind = layout::Pass;

Decoder::Decoder(const Context& context, std::int64_t samples, std::int64_t rows)
    : context_(context),
      map_(arch::unit_map(context.config)),
      rows_(rows),
      embedding_(context),
      head_(context),
      cache_(context.config.layers, samples, context.config.block_size, context.dims) {
  for (int layer = 0; layer < context.config.layers; ++layer) blocks_.emplace_back(context, layer);
}

void Decoder::declare(Arena& workspace, Arena& cache) {
  const DType type = context_.parameters.dtype();
  cache_.declare(cache, type);
  model::declare(workspace, saved_, context_.dims, rows_, type);
  head_.declare(workspace, rows_, false);
  model::declare(workspace, scratch_, context_.dims, rows_, type, {});
  workspace.keep();
}

WeightSet Decoder::leased(const parallel::Lease& lease, UnitIndex unit) const {
  return {context_.parameters.units()[static_cast<std::size_t>(unit.value)], lease.flat()};
}

Tensor Decoder::read(const Tensor& tokens, std::int64_t samples, std::int64_t positions) {
  const Pass pass{.samples = samples, .positions = positions};
  ensure(pass.rows() <= rows_, "a pass has at most the rows the decoder was declared for");
  ensure(cache_.length() + positions <= cache_.capacity(), "the context has room for what is read");
  const Tensor x = saved_.x.slice_rows(0, pass.rows());
  {
    const parallel::Lease tables = context_.parameters.lease(map_.embedding, PassKind::forward);
    const WeightSet w = leased(tables, map_.embedding);
    if (context_.config.tied) {
      const parallel::Lease tied = context_.parameters.lease(map_.tied, PassKind::forward);
      embedding_.forward(pass, w, leased(tied, map_.tied)[Role::token_table], tokens, x, cache_.length());
    } else {
      embedding_.forward(pass, w, w[Role::token_table], tokens, x, cache_.length());
    }
  }
  for (std::size_t i = 0; i < blocks_.size(); ++i) {
    const parallel::Lease lease = context_.parameters.lease(map_.blocks[i], PassKind::forward);
    blocks_[i].extend(pass, leased(lease, map_.blocks[i]), saved_, x, scratch_, cache_);
  }
  cache_.set_length(cache_.length() + positions);
  return x;
}

template <class Use>
auto Decoder::with_head(const Use& use) {
  const parallel::Lease lease = context_.parameters.lease(map_.head, PassKind::forward);
  const WeightSet w = leased(lease, map_.head);
  if (!context_.config.tied) return use(Head::Weights{w, w[Role::head_weight]});
  const parallel::Lease tied = context_.parameters.lease(map_.tied, PassKind::forward);
  return use(Head::Weights{w, leased(tied, map_.tied)[Role::token_table]});
}

void Decoder::logits(const Tensor& logits, const Tensor& x) {
  with_head([&](const Head::Weights& w) { head_.logits(logits, x, w); });
}

double Decoder::loss(const Tensor& x, const Tensor& targets) {
  return with_head([&](const Head::Weights& w) { return head_.loss(x, targets, w); });
}

}  // namespace lockstep::model
