#pragma once

// A transposed B (weights [N, K]) in the order that products with few rows read fastest: one stream of memory, nothing to
// transpose. Eight columns of B, which are rows of the matrix, make a tile of words. A word is an f32 or two bf16. Word w of
// column c lies at tile[w * 8 + c]. A tile takes the place of its eight rows. The last N % 8 rows stay as they are. No bit of a
// result depends on tiles.

#include <cstdint>

namespace lockstep::ops::cpu {

constexpr std::int64_t tile_columns = 8;
/// K has to be a multiple of this, whatever the type.
constexpr std::int64_t tile_depth = 8;

/// Makes a tile of eight rows of `words` words; `to` may be `rows`. `scratch` has room for 8 * words.
void store_tile(const std::uint32_t* rows, std::int64_t words, std::uint32_t* to, std::uint32_t* scratch);

}  // namespace lockstep::ops::cpu
