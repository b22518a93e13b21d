#include "model/decoder.h"

#include <utility>

namespace lockstep::model {

using PassKind = layout::Pass;

Decoder::Decoder(const Context& context, const CacheSize& cache, std::int64_t rows)
    : Decoder(context, {{.blocks = {0, context.config.layers}, .embedding = true, .head = true}}, cache, rows) {}

Decoder::Decoder(const Context& context, std::vector<layout::Chunk> chunks, const CacheSize& cache, std::int64_t rows)
    : context_(context),
      chunks_(std::move(chunks)),
      parts_(arch::part_map(context.config, context.parameters.units(), context.leases)),
      rows_(rows),
      embedding_(context),
      head_(context, head_memory_),
      cache_(context.config.layers, {cache.texts, cache.positions > 0 ? cache.positions : context.config.block_size, cache.pages},
             context.dims) {
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
  model::declare(workspace, saved_, sizes);
  if (chunks_.back().head) model::declare(workspace, head_memory_, context_.dims, rows, type, context_.sums.all_judgers, false);
  model::declare(workspace, scratch_, sizes, {});
  workspace.keep();
  cache_.declare(workspace, cache, chunks_, type);
  const std::int64_t longest = context_.config.block_size;
  workspace.declare(places_, "places of rows", Shape{1, longest + rows_}, DType::i32);
  if (arch::has_window(context_.config, longest)) workspace.declare(windows_, "starts of windows", Shape{1, longest}, DType::i32);
}

void Decoder::begin(std::span<const ops::CachedText> texts) {
  texts_ = texts;
  ensure(rows_of_pass() <= rows_, "a pass has at most the rows the decoder was declared for");
  Stream& stream = context_.ops.stream();
  const std::int64_t longest = context_.config.block_size;
  if (windows_.device && !std::exchange(windows_found_, true)) {
    ops::find_window_starts(elements<std::int32_t>(windows_.host), {}, longest, context_.config.window);
    upload(stream, windows_);
  }
  settle(stream, places_);
  const std::span<std::int32_t> places = elements<std::int32_t>(places_.host).subspan(static_cast<std::size_t>(longest));
  for (const ops::CachedText& text : texts) {
    ensure(text.position + text.rows <= cache_.size().positions, "the cache has room for what is read of a text");
    for (std::int64_t row = text.first; row < text.first + text.rows; ++row)  // longest + row - (position of the row)
      places[static_cast<std::size_t>(row)] = static_cast<std::int32_t>(longest + text.first - text.position);
  }
  upload(stream, places_);
}

void Decoder::run(std::size_t chunk, const Tensor& tokens) {
  const Pass pass{.samples = 1,
                  .positions = {context_.config.block_size, rows_of_pass()},
                  .starts = places_.device,
                  .window_starts = windows_.device};
  const Tensor x = stream();
  const auto& [blocks, embedding, head] = chunks_[chunk];
  if (embedding) {
    const LeasedWeights w(context_.parameters, parts_.embedding, PassKind::forward);
    embedding_.forward(pass, w.weights(), tokens, x, scratch_);
  }
  for (auto i = static_cast<std::size_t>(blocks.first); i < static_cast<std::size_t>(blocks.end()); ++i) {
    BlockWeights w(context_.parameters, parts_.blocks[i], PassKind::forward);
    blocks_[i].extend(pass, texts_, w, saved_, x, scratch_, cache_);
  }
}

Tensor Decoder::read(const Tensor& tokens, std::span<const ops::CachedText> texts) {
  ensure(chunks_.size() == 1 && chunks_.front().embedding && chunks_.front().head, "the whole model is here");
  begin(texts);
  run(0, tokens);
  return stream();
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
