#include "model/attention/kv_cache.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <utility>

namespace lockstep::model {

KvCache::KvCache(std::int64_t layers, const CacheSize& size, const layout::ShardedDims& dims)
    : keys_(static_cast<std::size_t>(layers)),
      values_(static_cast<std::size_t>(layers)),
      size_(size),
      width_(dims.kv_width()),
      pages_(static_cast<std::size_t>(size.texts * pages_for(size.positions))) {
  if (size.pages == 0) std::iota(pages_.begin(), pages_.end(), 0);
}

void KvCache::declare(Arena& workspace, Arena& cache, const std::vector<layout::Chunk>& chunks, DType type) {
  workspace.declare(table_, "page table", Shape{size_.texts, pages_for(size_.positions)}, DType::i32);
  for (const layout::Chunk& chunk : chunks) {
    for (std::int64_t block = chunk.blocks.first; block < chunk.blocks.end(); ++block) {
      const auto layer = static_cast<std::size_t>(block);
      const Arena::InLayer in(cache, fmt::format("h.{}", block));
      cache.declare(keys_[layer], "keys", Shape{pages() * ops::page_keys, width_}, type);
      cache.declare(values_[layer], "values", Shape{pages() * ops::page_keys, width_}, type);
    }
  }
}

void KvCache::set_pages(std::int64_t text, std::int64_t first, std::span<const std::int32_t> pages) {
  const std::int64_t columns = pages_for(size_.positions);
  ensure(text >= 0 && text < size_.texts && first >= 0 && first + std::ssize(pages) <= columns, "the table has room for a text");
  ensure(std::ranges::all_of(pages, [&](std::int32_t page) { return page >= 0 && page < this->pages(); }),
         "there are such pages");
  std::ranges::copy(pages, pages_.begin() + text * columns + first);
  changed_ = true;
}

const Tensor& KvCache::table(Stream& stream) {
  if (std::exchange(changed_, false)) {
    settle(stream, table_);
    std::ranges::copy(pages_, elements<std::int32_t>(table_.host).begin());
    upload(stream, table_);
  }
  return table_.device;
}

}  // namespace lockstep::model
