#pragma once

// The model, or chunks of it, for reading and writing text: no gradient, keys and values cached. Equal bits with the training
// forward pass.

#include <vector>

#include "model/block.h"
#include "model/embedding.h"
#include "model/head.h"
#include "model/leases.h"

namespace lockstep::model {

class Decoder {
 public:
  /// Reads passes of at most `rows` tokens, all texts together. Texts have at most config.block_size tokens, which is what
  /// cache.positions 0 stands for. Throws BrokenRule where a boundary splits rows: splitting a few tokens' rows is not worth it.
  /// A boundary that sums has the same ranks.
  Decoder(const Context& context, const CacheSize& cache, std::int64_t rows);
  /// A decoder of the model's `chunks`, in the model's order.
  Decoder(const Context& context, std::vector<layout::Chunk> chunks, const CacheSize& cache, std::int64_t rows);
  Decoder(const Decoder&) = delete;
  Decoder& operator=(const Decoder&) = delete;
  void declare(Arena& workspace, Arena& cache);

  KvCache& cache() { return cache_; }
  const std::vector<layout::Chunk>& chunks() const { return chunks_; }
  /// Reads tokens [rows] i32 of `texts` with all of the model, and keeps their keys and values. Earlier positions of the texts
  /// were read before. Returns the last block's output [rows, C], valid until the next call. A row has the same bits whatever
  /// else is read with it, and however its text is cut.
  Tensor read(const Tensor& tokens, std::span<const ops::CachedText> texts);

  /// The steps of read(), for chunks that get their input from elsewhere. Call begin(), then run() for each chunk. run() turns
  /// the stream [rows, C] from the chunk's input into its output. A chunk that has the embedding makes its input from `tokens`.
  void begin(std::span<const ops::CachedText> texts);
  Tensor stream() const { return saved_.x.slice_rows(0, rows_of_pass()); }
  void run(std::size_t chunk, const Tensor& tokens);

  /// logits [R, V] of rows of read()'s result. Only where the head is.
  void logits(const Tensor& logits, const Tensor& x);
  /// The losses of rows of read()'s result.
  void loss(const Tensor& x, const Objective& objective);

 private:
  std::int64_t rows_of_pass() const { return texts_.empty() ? 0 : texts_.back().first + texts_.back().rows; }
  const Context& context_;
  std::vector<layout::Chunk> chunks_;
  arch::PartMap parts_;
  std::int64_t rows_;
  EmbeddingLayer embedding_;
  std::vector<Block> blocks_;
  HeadMemory head_memory_;
  Head head_;
  KvCache cache_;
  Mirror windows_;  ///< [1, block_size] i32, for layers that see a window
  bool windows_found_ = false;
  /// [1, block_size + rows] i32. A pass is one sample whose rows begin at position block_size. Each row is a document. It begins
  /// before the row by the row's position in its text.
  Mirror places_;
  std::span<const ops::CachedText> texts_;
  BlockSaved saved_;
  Scratch scratch_;
};

}  // namespace lockstep::model
