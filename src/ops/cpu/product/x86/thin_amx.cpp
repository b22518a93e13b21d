#include <algorithm>
#include <cstring>

#include "base/checked.h"
#include "ops/cpu/product/pack.h"
#include "ops/cpu/product/thin.h"
#include "ops/cpu/product/tiles.h"
#include "ops/cpu/product/x86/amx.h"

namespace lockstep::ops::cpu {
namespace {

constexpr std::int64_t block_words = k_block / 2, side = tile_words, most_rows = ThinStep::most_rows, panel = ThinStep::panel;

// A block's words of B where they lie, or of its end with zeros behind K.
struct Words {
  const char* from;
  std::int64_t bytes;  // from a row to the next
};

std::int64_t words_in(const ThinStep& step, std::int64_t block) { return std::min(block_words, div_up(step.k, 2) - block); }

void store(const ThinStep& step, std::int64_t block, std::int64_t row, std::int64_t column, float sum) {
  float& to = step.to[row * panel + column];
  to = block == 0 ? sum : to + sum;
}

// Rows of B, which lie as they are, are the rows of tiles, and A's the columns: nothing of B is turned.
class Rows {
 public:
  explicit Rows(const ThinStep& step) : step_(step), upper_(std::min(side, step.columns)), lower_(step.columns - upper_) {
    TileShapes shapes;
    shapes.set(0, upper_, step.rows);
    shapes.set(2, upper_, side);
    shapes.set(1, std::max<std::int64_t>(lower_, 1), step.rows);
    shapes.set(3, std::max<std::int64_t>(lower_, 1), side);
    shapes.set(4, side, step.rows);
    begin_tiles(shapes);
  }

  void run() {
    for (std::int64_t block = 0; block < div_up(step_.k, 2); block += block_words) {
      const std::int64_t count = words_in(step_, block);
      turn_a(block, count);
      LOCKSTEP_TILE_CLEAR("0");
      LOCKSTEP_TILE_CLEAR("1");
      for (std::int64_t word = 0; word < count; word += side) add(block + word, a_ + word * most_rows);
      LOCKSTEP_TILE_STORE("0", sums_, most_rows * 4);
      if (lower_ > 0) LOCKSTEP_TILE_STORE("1", sums_ + side * most_rows, most_rows * 4);
      for (std::int64_t row = 0; row < step_.rows; ++row)
        for (std::int64_t column = 0; column < step_.columns; ++column)
          store(step_, block, row, column, sums_[column * most_rows + row]);
    }
  }

 private:
  void turn_a(std::int64_t block, std::int64_t count) {
    for (std::int64_t word = 0; word < round_up(count, side); ++word)
      for (std::int64_t row = 0; row < step_.rows; ++row)
        a_[word * most_rows + row] = word < count ? step_.a[row * step_.a_stride + block + word] : 0.0F;
  }
  Words words_at(std::int64_t word) {
    const auto* from = static_cast<const char*>(step_.b) + word * 4;
    const std::int64_t bytes = step_.b_stride * 2, left = step_.k * 2 - word * 4;
    if (left >= side * 4) return {from, bytes};
    std::memset(rest_, 0, sizeof rest_);
    for (std::int64_t column = 0; column < step_.columns; ++column)
      std::memcpy(rest_ + column * side, from + column * bytes, static_cast<std::size_t>(left));
    return {reinterpret_cast<const char*>(rest_), side * 4};
  }
  void add(std::int64_t word, const float* a) {
    const Words b = words_at(word);
    LOCKSTEP_TILE_LOAD("4", a, most_rows * 4);
    LOCKSTEP_TILE_LOAD("2", b.from, b.bytes);
    LOCKSTEP_TILE_MULTIPLY("0", "2", "4");
    if (lower_ == 0) return;
    LOCKSTEP_TILE_LOAD("3", b.from + side * b.bytes, b.bytes);
    LOCKSTEP_TILE_MULTIPLY("1", "3", "4");
  }

  const ThinStep& step_;
  std::int64_t upper_, lower_;
  alignas(64) float a_[block_words * most_rows];
  alignas(64) float sums_[panel * most_rows];
  alignas(64) float rest_[panel * side];
};

// Columns that lie in tiles of eight (product/tiles.h) are the columns of AMX's.
class Tiles {
 public:
  explicit Tiles(const ThinStep& step) : step_(step), tiles_(step.columns / tile_columns) {
    TileShapes shapes;
    for (std::size_t i = 0; i < 4; ++i) shapes.set(i, step.rows, tile_columns);
    shapes.set(4, step.rows, side);
    shapes.set(5, side, tile_columns);
    begin_tiles(shapes);
  }

  void run() {
    for (std::int64_t block = 0; block < step_.k / 2; block += block_words) {
      const std::int64_t count = words_in(step_, block);
      LOCKSTEP_TILE_CLEAR("0");
      LOCKSTEP_TILE_CLEAR("1");
      LOCKSTEP_TILE_CLEAR("2");
      LOCKSTEP_TILE_CLEAR("3");
      for (std::int64_t word = 0; word < count; word += side) add(block + word, std::min(side, count - word));
      LOCKSTEP_TILE_STORE("0", sums_, panel * 4);
      LOCKSTEP_TILE_STORE("1", sums_ + tile_columns, panel * 4);
      LOCKSTEP_TILE_STORE("2", sums_ + 2 * tile_columns, panel * 4);
      LOCKSTEP_TILE_STORE("3", sums_ + 3 * tile_columns, panel * 4);
      for (std::int64_t row = 0; row < step_.rows; ++row)
        for (std::int64_t column = 0; column < step_.columns; ++column)
          store(step_, block, row, column, sums_[row * panel + column]);
    }
  }

 private:
  static constexpr std::int64_t row_bytes = tile_columns * 4, bytes_ahead = 2048;

  const char* words_at(std::int64_t tile, std::int64_t word, std::int64_t count) {
    const char* from = static_cast<const char*>(step_.b) + (tile * tile_columns * step_.b_stride) * 2 + word * row_bytes;
    for (std::int64_t line = 0; line < side * row_bytes; line += 64) __builtin_prefetch(from + bytes_ahead + line);
    if (count == side) return from;
    std::memset(rest_, 0, sizeof rest_);
    std::memcpy(rest_, from, static_cast<std::size_t>(count * row_bytes));
    return reinterpret_cast<const char*>(rest_);
  }
  void add(std::int64_t word, std::int64_t count) {
    if (count == side) {
      LOCKSTEP_TILE_LOAD("4", step_.a + word, step_.a_stride * 4);
    } else {
      std::memset(a_rest_, 0, sizeof a_rest_);
      for (std::int64_t row = 0; row < step_.rows; ++row)
        std::copy_n(step_.a + row * step_.a_stride + word, count, a_rest_ + row * side);
      LOCKSTEP_TILE_LOAD("4", a_rest_, side * 4);
    }
    LOCKSTEP_TILE_LOAD("5", words_at(0, word, count), row_bytes);
    LOCKSTEP_TILE_MULTIPLY("0", "4", "5");
    if (tiles_ < 2) return;
    LOCKSTEP_TILE_LOAD("5", words_at(1, word, count), row_bytes);
    LOCKSTEP_TILE_MULTIPLY("1", "4", "5");
    if (tiles_ < 3) return;
    LOCKSTEP_TILE_LOAD("5", words_at(2, word, count), row_bytes);
    LOCKSTEP_TILE_MULTIPLY("2", "4", "5");
    if (tiles_ < 4) return;
    LOCKSTEP_TILE_LOAD("5", words_at(3, word, count), row_bytes);
    LOCKSTEP_TILE_MULTIPLY("3", "4", "5");
  }

  const ThinStep& step_;
  std::int64_t tiles_;
  alignas(64) float sums_[most_rows * panel];
  alignas(64) float rest_[side * tile_columns], a_rest_[most_rows * side];
};

}  // namespace

void thin_amx(const ThinStep& step) {
  if (step.tiled) {
    Tiles(step).run();
  } else {
    Rows(step).run();
  }
  end_tiles();
}

}  // namespace lockstep::ops::cpu
