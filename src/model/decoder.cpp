#include "model/decoder.h"

#include <utility>

namespace lockstep::model {

using PassKind = layout::Pass;

Decoder::Decoder(const Context& context, std::int64_t samples, std::int64_t rows)
    : Decoder(context, {{.blocks = {0, context.config.layers}, .embedding = true, .head = true}}, samples, rows) {}

Decoder::Decoder(const Context& context, std::vector<layout::Chunk> chunks, std::int64_t samples, std::int64_t rows)
    : context_(context),
      chunks_(std::move(chunks)),
      parts_(arch::part_map(context.config, context.parameters.units(), context.leases)),
      samples_(samples),
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
  const BlockSizes sizes{context_.dims, rows, type, context_.attention, arch::tile_sums(parts_, type)};
  cache_.declare(cache, chunks_, type);
  model::declare(workspace, saved_, sizes);
  if (chunks_.back().head) model::declare(workspace, head_memory_, context_.dims, rows, type, context_.sums.all_judgers, false);
  model::declare(workspace, scratch_, sizes, {});
  workspace.keep();
  const std::int64_t longest = context_.config.block_size;
  if (arch::has_window(context_.config, longest))
    workspace.declare(windows_, "starts of windows", Shape{samples_, longest}, DType::i32);
}

Tensor Decoder::window_starts(std::int64_t samples) {
  if (!windows_.device) return {};
  if (!windows_found_) {
    ops::find_window_starts(elements<std::int32_t>(windows_.host), {}, context_.config.block_size, context_.config.window);
    upload(context_.ops.stream(), windows_);
    windows_found_ = true;
  }
  return windows_.device.slice_rows(0, samples);
}

void Decoder::run(std::size_t chunk, const Tensor& tokens, std::int64_t samples, std::int64_t positions) {
  const Pass pass{.samples = samples, .positions = {cache_.length(), positions}, .window_starts = window_starts(samples)};
  ensure(pass.rows() <= rows_, "a pass has at most the rows the decoder was declared for");
  ensure(cache_.length() + positions <= cache_.capacity(), "the context has room for what is read");
  const Tensor x = stream(pass.rows());
  const auto& [blocks, embedding, head] = chunks_[chunk];
  if (embedding) {
    const LeasedWeights w(context_.parameters, parts_.embedding, PassKind::forward);
    embedding_.forward(pass, w.weights(), tokens, x, scratch_);
  }
  for (auto i = static_cast<std::size_t>(blocks.first); i < static_cast<std::size_t>(blocks.end()); ++i) {
    BlockWeights w(context_.parameters, parts_.blocks[i], PassKind::forward);
    blocks_[i].extend(pass, w, saved_, x, scratch_, cache_);
  }
}

Tensor Decoder::read(const Tensor& tokens, std::int64_t samples, std::int64_t positions) {
  ensure(chunks_.size() == 1 && chunks_.front().embedding && chunks_.front().head, "the whole model is here");
  run(0, tokens, samples, positions);
  advance(positions);
  return stream(samples * positions);
}

void Decoder::logits(const Tensor& logits, const Tensor& x) {
  const LeasedWeights w(context_.parameters, parts_.head, PassKind::forward);
  head_.logits(logits, x, w.weights());
}

void Decoder::loss(const Tensor& x, const Objective& objective) {
  const LeasedWeights w(context_.parameters, parts_.head, PassKind::forward);
  head_.loss({.samples = 1, .positions = {0, objective.targets.elements()}}, x, objective, w.weights());
}

}  // namespace lockstep::model
