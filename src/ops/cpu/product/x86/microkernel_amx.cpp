#include <immintrin.h>

#include <algorithm>
#include <array>

#include "ops/cpu/product/microkernel.h"
#include "ops/cpu/product/x86/amx.h"

namespace lockstep::ops::cpu {
namespace {

// Tiles 0 to 3 hold the sums of 32 x 32 elements. Tiles 4 and 5 hold words of 16 columns of B each, 6 and 7 words of 16 rows of A
// each. A tile of B has a row for each of 16 words, as the packed panel has.
constexpr std::int64_t side = tile_words, panel = 2 * side, most_words = 128;
constexpr std::int64_t lines_together = 8;  // of what is fetched ahead, for each 16 words

constexpr TileShapes whole_tiles = [] {
  TileShapes shapes;
  for (std::size_t i = 0; i < 8; ++i) shapes.set(i, side, side);
  return shapes;
}();

// Sixteen words of the tile's rows and columns. The second half of the rows may be missing.
template <bool low>
inline void multiply(const float* a, std::int64_t a_bytes, const float* b) {
  constexpr std::int64_t b_bytes = panel * sizeof(float);
  LOCKSTEP_TILE_LOAD("4", b, b_bytes);
  LOCKSTEP_TILE_LOAD("6", a, a_bytes);
  LOCKSTEP_TILE_MULTIPLY("0", "6", "4");
  LOCKSTEP_TILE_LOAD("5", b + side, b_bytes);
  LOCKSTEP_TILE_MULTIPLY("1", "6", "5");
  if constexpr (low) {
    LOCKSTEP_TILE_LOAD("7", reinterpret_cast<const char*>(a) + side * a_bytes, a_bytes);
    LOCKSTEP_TILE_MULTIPLY("2", "7", "4");
    LOCKSTEP_TILE_MULTIPLY("3", "7", "5");
  }
}

// The last words of K, with zeros behind them.
template <bool low>
void multiply_rest(const float* a, std::int64_t a_row, const float* b, std::int64_t words) {
  alignas(64) float a_rest[panel * side] = {}, b_rest[side * panel] = {};
  for (std::int64_t row = 0; row < (low ? panel : side); ++row) std::copy_n(a + row * a_row, words, a_rest + row * side);
  std::copy_n(b, words * panel, b_rest);
  multiply<low>(a_rest, side * 4, b_rest);
}

template <bool low>
void sum_block(const TileStep& step, const float* a, std::int64_t a_row, float* block) {
  constexpr std::int64_t bytes = panel * sizeof(float);
  LOCKSTEP_TILE_CLEAR("0");
  LOCKSTEP_TILE_CLEAR("1");
  if constexpr (low) {
    LOCKSTEP_TILE_CLEAR("2");
    LOCKSTEP_TILE_CLEAR("3");
  }
  const auto* ahead = static_cast<const char*>(step.ahead);
  std::int64_t k = 0;
  for (; k + side <= step.k; k += side) {
    multiply<low>(a + k, a_row * 4, step.b + k * panel);
    if (ahead == nullptr) continue;
    for (std::int64_t i = 0; i < lines_together; ++i, ahead += step.ahead_stride) __builtin_prefetch(ahead, 0, 2);
  }
  if (k < step.k) multiply_rest<low>(a + k, a_row, step.b + k * panel, step.k - k);
  LOCKSTEP_TILE_STORE("0", block, bytes);
  LOCKSTEP_TILE_STORE("1", block + side, bytes);
  if constexpr (low) {
    LOCKSTEP_TILE_STORE("2", block + side * panel, bytes);
    LOCKSTEP_TILE_STORE("3", block + side * panel + side, bytes);
  }
}

__attribute__((target("avx512f"))) void add_block(const TileStep& step, const float* block) {
  const bool stream = step.stream && reinterpret_cast<std::uintptr_t>(step.to) % 64 == 0 && step.to_stride % side == 0;
  for (std::int64_t row = 0; row < step.rows; ++row) {
    for (std::int64_t column = 0; column < panel; column += side) {
      __m512 sum = _mm512_load_ps(block + row * panel + column);
      if (step.from != nullptr) sum = _mm512_add_ps(_mm512_loadu_ps(step.from + row * step.from_stride + column), sum);
      float* to = step.to + row * step.to_stride + column;
      if (stream) {
        _mm512_stream_ps(to, sum);
      } else {
        _mm512_storeu_ps(to, sum);
      }
    }
  }
}

}  // namespace

void begin_amx() { begin_tiles(whole_tiles); }
void end_amx() { end_tiles(); }

void tile_32x32_amx(const TileStep& step) {
  alignas(64) float block[panel * panel];
  if (step.rows == panel) {
    sum_block<true>(step, step.a, step.a_row, block);
  } else {
    // Rows that are not there are not read.
    alignas(64) float rows[panel * most_words];
    for (std::int64_t row = 0; row < panel; ++row)
      std::copy_n(step.a + std::min(row, step.rows - 1) * step.a_row, step.k, rows + row * most_words);
    if (step.rows > side) {
      sum_block<true>(step, rows, most_words, block);
    } else {
      sum_block<false>(step, rows, most_words, block);
    }
  }
  add_block(step, block);
}

}  // namespace lockstep::ops::cpu
