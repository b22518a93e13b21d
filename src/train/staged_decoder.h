#pragma once

// Reading with a model whose chunks lie on the ranks of a pipeline. Each rank computes its chunks, and sends the residual stream
// on.

#include <vector>

#include "model/decoder.h"
#include "train/pipeline_runner.h"

namespace lockstep::train {

/// The chunks of a model that a rank has, and where the others are. The model is an engine's, or an Inference.
struct ModelShare {
  const model::Context& context;
  const std::vector<layout::Chunk>& chunks;
  const PipelineLinks& links;
};

class StagedDecoder {
 public:
  /// Passes of at most `rows` tokens. The references in `model` outlive this.
  StagedDecoder(const ModelShare& model, const model::CacheSize& cache, std::int64_t rows)
      : decoder_(model.context, model.chunks, cache, rows), links_(model.links) {}
  void declare(Arena& workspace, Arena& cache) { decoder_.declare(workspace, cache); }

  model::Decoder& decoder() { return decoder_; }
  bool has_head() const { return decoder_.chunks().back().head; }
  /// Whether this rank has all chunks.
  bool alone() const { return links_.group == nullptr || links_.group->size() == 1; }
  /// As model::Decoder::read(). Returns the last block's output [rows, C] where the head is, valid until the next call.
  /// Collective over the pipeline's ranks, each with the same tokens and texts.
  Tensor read(const Tensor& tokens, std::span<const ops::CachedText> texts);
  /// Sends the value of the rank with the head to all of the pipeline's ranks. Collective.
  std::int32_t from_head(std::int32_t value);

 private:
  model::Decoder decoder_;
  const PipelineLinks& links_;
};

}  // namespace lockstep::train
