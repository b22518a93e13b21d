#pragma once

// How a product is cut into tiles, strips and passes over K, so that packed operands stay in near caches. No bit of a result
// depends on it.

#include <cstdint>

#include "ops/cpu/product/pack.h"

namespace lockstep::ops::cpu {

struct ProductTask;

/// A worker's scratch in floats: a packed stripe of B, a strip of A, sums of a tile.
struct Workspace {
  static constexpr std::int64_t b = 384 * 1024;
  static constexpr std::int64_t strip_rows = 112;
  static constexpr std::int64_t strip = strip_rows * k_block;
  static constexpr std::int64_t sums = 192 * 1024;
};
constexpr std::int64_t most_stripe_parts = 16384;  ///< the most parts of stripes, all stripes together

/// C is cut into stripes of columns, and each stripe into blocks of rows, which strips of rows walk through. K is cut into passes
/// that fit the packed stripe.
struct Cut {
  std::int64_t stripe, rows, pass, strip_rows;
  std::int64_t stripes, row_blocks;
  std::int64_t parts = 1;  ///< parts of the blocks of rows, in which workers begin; 1: they begin in different stripes
};

struct CutFor {
  std::int64_t rows, panel;  ///< of the kernel's tile
  std::int64_t depth;        ///< k in a word
  int threads;
};

Cut cut_of(const ProductTask& task, const CutFor& by);

}  // namespace lockstep::ops::cpu
