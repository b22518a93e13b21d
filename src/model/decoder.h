#pragma once

// The model for reading and writing text: no gradient, keys and values cached. Equal bits with the training forward pass.

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
  Decoder(const Decoder&) = delete;
  Decoder& operator=(const Decoder&) = delete;
  void declare(Arena& workspace, Arena& cache);

  KvCache& cache() { return cache_; }
  /// Reads tokens [samples * positions] i32 behind what the cache holds and adds them to it. Returns the last block's
  /// output [rows, C], valid until the next call.
  Tensor read(const Tensor& tokens, std::int64_t samples, std::int64_t positions);
  /// logits [R, V] of rows of read()'s result.
  void logits(const Tensor& logits, const Tensor& x);
  /// The losses of rows of read()'s result.
  void loss(const Tensor& x, const Objective& objective);

 private:
  const Context& context_;
  arch::PartMap parts_;
  std::int64_t rows_;
  EmbeddingLayer embedding_;
  std::vector<Block> blocks_;
  HeadMemory head_memory_;
  Head head_;
  KvCache cache_;
  BlockSaved saved_;
  Scratch scratch_;
};

}  // namespace lockstep::model
