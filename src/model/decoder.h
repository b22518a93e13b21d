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
  /// Passes of at most `rows` tokens (all samples together), contexts of at most config.block_size. Throws BrokenRule where a
  /// boundary splits rows: those of a few tokens are not worth it, and one that sums has the same ranks.
  Decoder(const Context& context, std::int64_t samples, std::int64_t rows);
  /// Of the model's `chunks`, in its order.
  Decoder(const Context& context, std::vector<layout::Chunk> chunks, std::int64_t samples, std::int64_t rows);
  Decoder(const Decoder&) = delete;
  Decoder& operator=(const Decoder&) = delete;
  void declare(Arena& workspace, Arena& cache);

  KvCache& cache() { return cache_; }
  const std::vector<layout::Chunk>& chunks() const { return chunks_; }
  /// Reads tokens [samples * positions] i32 behind what the cache holds and adds them to it, with all of the model. Returns the
  /// last block's output [rows, C], valid until the next call.
  Tensor read(const Tensor& tokens, std::int64_t samples, std::int64_t positions);

  /// The same in steps, for chunks that get their input from elsewhere: run() turns the stream [rows, C] from a chunk's input
  /// (where it has the embedding, from the tokens) into its output; behind the last chunk advance() adds to the cache what was
  /// read.
  Tensor stream(std::int64_t rows) const { return saved_.x.slice_rows(0, rows); }
  void run(std::size_t chunk, const Tensor& tokens, std::int64_t samples, std::int64_t positions);
  void advance(std::int64_t positions) { cache_.set_length(cache_.length() + positions); }

  /// logits [R, V] of rows of read()'s result; where the head is.
  void logits(const Tensor& logits, const Tensor& x);
  /// The losses of rows of read()'s result.
  void loss(const Tensor& x, const Objective& objective);

 private:
  /// Where the windows of `samples` texts begin; empty where there are none.
  Tensor window_starts(std::int64_t samples);
  const Context& context_;
  std::vector<layout::Chunk> chunks_;
  arch::PartMap parts_;
  std::int64_t samples_, rows_;
  EmbeddingLayer embedding_;
  std::vector<Block> blocks_;
  HeadMemory head_memory_;
  Head head_;
  KvCache cache_;
  Mirror windows_;  ///< [samples, block_size] i32, of layers that see one
  bool windows_found_ = false;
  BlockSaved saved_;
  Scratch scratch_;
};

}  // namespace lockstep::model
