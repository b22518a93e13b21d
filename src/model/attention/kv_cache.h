#pragma once

// Keys and values of what was read already, a block at a time. S samples, T_max positions, K key/value heads, D head size.

#include <vector>

#include "layout/pipeline/pipeline_schedule.h"
#include "layout/sharded_dims.h"
#include "tensor/arena.h"

namespace lockstep::model {

class KvCache {
 public:
  KvCache(std::int64_t layers, std::int64_t samples, std::int64_t capacity, const layout::ShardedDims& dims)
      : keys_(static_cast<std::size_t>(layers)),
        values_(static_cast<std::size_t>(layers)),
        samples_(samples),
        capacity_(capacity),
        width_(dims.kv_width()) {}
  /// For the blocks of `chunks`, in the type of activations.
  void declare(Arena& arena, const std::vector<layout::Chunk>& chunks, DType type);

  std::int64_t samples() const { return samples_; }
  std::int64_t capacity() const { return capacity_; }
  std::int64_t length() const { return length_; }
  /// Positions [0, length) are kept; fewer than before forgets the rest.
  void set_length(std::int64_t length);
  /// [S * T_max, K D]: the rows of sample s begin at s * T_max.
  const Tensor& keys(std::size_t layer) const { return keys_[layer]; }
  const Tensor& values(std::size_t layer) const { return values_[layer]; }

 private:
  std::vector<Tensor> keys_, values_;
  std::int64_t samples_, capacity_, width_, length_ = 0;
};

}  // namespace lockstep::model
