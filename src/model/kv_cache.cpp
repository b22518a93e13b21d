#include "model/kv_cache.h"

namespace lockstep::model {

void KvCache::declare(Arena& arena, DType type) {
  for (std::size_t layer = 0; layer < keys_.size(); ++layer) {
    arena.declare(keys_[layer], "keys", Shape{samples_ * capacity_, width_}, type);
    arena.declare(values_[layer], "values", Shape{samples_ * capacity_, width_}, type);
  }
}

void KvCache::set_length(std::int64_t length) {
  ensure(length >= 0 && length <= capacity_, "a cache holds at most its capacity");
  length_ = length;
}

}  // namespace lockstep::model
