#include "ops/cpu/product/tiles.h"

#include <algorithm>

namespace lockstep::ops::cpu {

void store_tile(const std::uint32_t* rows, std::int64_t words, std::uint32_t* to, std::uint32_t* scratch) {
  std::copy_n(rows, tile_columns * words, scratch);
  for (std::int64_t w = 0; w < words; ++w, to += tile_columns) {
    for (std::int64_t c = 0; c < tile_columns; ++c) to[c] = scratch[c * words + w];
  }
}

}  // namespace lockstep::ops::cpu
