#pragma once

// Keys and values of the positions that texts have read already, in pages of ops::page_keys positions (Kwon et al. 2023), a block
// at a time. The user of the cache says which pages a text has. Texts may share pages that are full. K key/value heads, D head
// size.

#include <span>
#include <vector>

#include "layout/pipeline/pipeline_schedule.h"
#include "layout/sharded_dims.h"
#include "ops/attention.h"
#include "tensor/arena.h"

namespace lockstep::model {

/// The number of pages that so many positions of a text fill.
constexpr std::int64_t pages_for(std::int64_t positions) { return (positions + ops::page_keys - 1) / ops::page_keys; }

/// How much the cache keeps.
struct CacheSize {
  std::int64_t texts = 0;      ///< that are read at a time
  std::int64_t positions = 0;  ///< of the longest
  std::int64_t pages = 0;      ///< of all texts; 0: as many as they can fill, and text n has the n-th part of them
};

class KvCache {
 public:
  KvCache(std::int64_t layers, const CacheSize& size, const layout::ShardedDims& dims);
  /// Declares keys and values for the blocks of `chunks`, in the type of activations. The page table lies in `workspace`.
  void declare(Arena& workspace, Arena& cache, const std::vector<layout::Chunk>& chunks, DType type);

  const CacheSize& size() const { return size_; }
  std::int64_t pages() const { return size_.pages > 0 ? size_.pages : size_.texts * pages_for(size_.positions); }
  /// Sets the pages of `text` from its page `first` on.
  void set_pages(std::int64_t text, std::int64_t first, std::span<const std::int32_t> pages);
  /// The page table [texts, n] i32, for what is read next.
  const Tensor& table(Stream& stream);
  /// The row of keys() and values() that has position `at` of a text.
  std::int64_t row_of(std::int64_t text, std::int64_t at) const {
    return table_of(text)[static_cast<std::size_t>(at / ops::page_keys)] * ops::page_keys + at % ops::page_keys;
  }
  /// [pages * page_keys, K D].
  const Tensor& keys(std::size_t layer) const { return keys_[layer]; }
  const Tensor& values(std::size_t layer) const { return values_[layer]; }

 private:
  std::span<const std::int32_t> table_of(std::int64_t text) const {
    const auto columns = static_cast<std::size_t>(pages_for(size_.positions));
    return std::span(pages_).subspan(static_cast<std::size_t>(text) * columns, columns);
  }
  std::vector<Tensor> keys_, values_;
  CacheSize size_;
  std::int64_t width_;
  std::vector<std::int32_t> pages_;  ///< what the table says
  Mirror table_;
  bool changed_ = true;
};

}  // namespace lockstep::model
