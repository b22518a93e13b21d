#include "model/attention/kv_cache.h"

#include <fmt/format.h>

namespace lockstep::model {

void KvCache::declare(Arena& arena, const std::vector<layout::Chunk>& chunks, DType type) {
  for (const layout::Chunk& chunk : chunks) {
    for (std::int64_t block = chunk.blocks.first; block < chunk.blocks.end(); ++block) {
      const auto layer = static_cast<std::size_t>(block);
      const Arena::InLayer in(arena, fmt::format("h.{}", block));
      arena.declare(keys_[layer], "keys", Shape{samples_ * capacity_, width_}, type);
      arena.declare(values_[layer], "values", Shape{samples_ * capacity_, width_}, type);
    }
  }
}

void KvCache::set_length(std::int64_t length) {
  ensure(length >= 0 && length <= capacity_, "a cache holds at most its capacity");
  length_ = length;
}

}  // namespace lockstep::model
