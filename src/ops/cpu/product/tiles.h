#pragma once

// A transposed B (weights [N, K]) as few rows times it read it fastest: one stream of memory, nothing to transpose. Eight
// columns of B, rows of the matrix, make a tile of words (an f32 or two bf16): word w of column c lies at tile[w * 8 + c]. A tile
// takes the place of its eight rows; what is left of N / 8 rows stays as it is. Bit-neutral.

#include <cstdint>

namespace lockstep::ops::cpu {

constexpr std::int64_t tile_columns = 8;
/// Elements of K come in multiples of this, whatever their type.
constexpr std::int64_t tile_depth = 8;

/// Makes a tile of eight rows of `words` words; `to` may be `rows`. `scratch`: 8 * words.
void store_tile(const std::uint32_t* rows, std::int64_t words, std::uint32_t* to, std::uint32_t* scratch);

}  // namespace lockstep::ops::cpu
