#include "model/decoder.h"

namespace lockstep::model {

using PassKind = layout::Pass;

Decoder::Decoder(const Context& context, std::int64_t samples, std::int64_t rows)
    : context_(context),
      parts_(arch::part_map(context.config, context.parameters.units(), context.leases)),
      rows_(rows),
      embedding_(context),
      head_(context, head_memory_),
      cache_(context.config.layers, samples, context.config.block_size, context.dims) {
  for (const parallel::Boundary* boundary :
       {context.boundaries.embedding, context.boundaries.attention, context.boundaries.mlp, context.boundaries.head}) {
    ensure(boundary->kind() != parallel::BoundaryKind::splitting,
           "a decoder has boundaries that split no rows: it reads a few tokens at a time");
  }
  for (int layer = 0; layer < context.config.layers; ++layer) blocks_.emplace_back(context, layer);
}

void Decoder::declare(Arena& workspace, Arena& cache) {
  const DType type = context_.parameters.dtype();
  const Rows rows = rows_of(context_.boundaries, {1, rows_});  // of any samples and positions: boundaries split no rows
  const BlockSizes sizes{context_.dims, rows, type, context_.attention};
  cache_.declare(cache, type);
  model::declare(workspace, saved_, sizes);
  model::declare(workspace, head_memory_, context_.dims, rows, type, false);
  model::declare(workspace, scratch_, sizes, {});
  workspace.keep();
}

Tensor Decoder::read(const Tensor& tokens, std::int64_t samples, std::int64_t positions) {
  const Pass pass{.samples = samples, .positions = {cache_.length(), positions}};
  ensure(pass.rows() <= rows_, "a pass has at most the rows the decoder was declared for");
  ensure(cache_.length() + positions <= cache_.capacity(), "the context has room for what is read");
  const Tensor x = saved_.x.slice_rows(0, pass.rows());
  {
    const LeasedWeights w(context_.parameters, parts_.embedding, PassKind::forward);
    embedding_.forward(pass, w.weights(), tokens, x, scratch_);
  }
  for (std::size_t i = 0; i < blocks_.size(); ++i) {
    BlockWeights w(context_.parameters, parts_.blocks[i], PassKind::forward);
    blocks_[i].extend(pass, w, saved_, x, scratch_, cache_);
  }
  cache_.set_length(cache_.length() + positions);
  return x;
}

void Decoder::logits(const Tensor& logits, const Tensor& x) {
  const LeasedWeights w(context_.parameters, parts_.head, PassKind::forward);
  head_.logits(logits, x, w.weights());
}

void Decoder::loss(const Tensor& x, const Objective& objective) {
  const LeasedWeights w(context_.parameters, parts_.head, PassKind::forward);
  head_.loss({1, objective.targets.elements()}, x, objective, w.weights());
}

}  // namespace lockstep::model
