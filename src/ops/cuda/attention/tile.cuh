#pragma once

// A tile of 64 queries and 64 keys of one head, for 256 threads. Thread t has four rows, from 4 (t / 16) on. It has every 16th of
// 64 columns, from t % 16 on. So the 16 threads of half a warp share four rows.

#include <limits>

#include "ops/cuda/attention/attention.h"
#include "ops/cuda/device/lanes.cuh"
#include "ops/cuda/device/math.cuh"
#include "ops/cuda/device/philox.cuh"
#include "ops/cuda/device/storage.cuh"
#include "ops/cuda/native/tensor_core.cuh"

namespace lockstep::ops::cuda {

inline constexpr float lowest = -1.0e20F;  ///< finite times any scale that a model may have
inline constexpr int tile_size = 64;
inline constexpr unsigned tile_threads = 256;
inline constexpr int side = 4;                  ///< a thread's rows, and its columns
inline constexpr int strip = 32;                ///< so many elements of heads are in shared memory at a time
inline constexpr int part_columns = tile_size;  ///< so many columns of a result are made at a time

struct Strips {
  float left[tile_size][strip + 1], right[tile_size][strip + 1];
};
struct TileShared {
  union {
    Strips strips;
    float values[tile_size][part_columns];
  };
  float scores[tile_size][tile_size + 1];
};

/// Element (r, c) of a thread's part of a tile.
using Part = float[side][side];

__device__ __forceinline__ int own_row(int r) { return static_cast<int>(threadIdx.x) / lanes * side + r; }
__device__ __forceinline__ int own_column(int c) { return static_cast<int>(threadIdx.x) % lanes + c * lanes; }

/// 64 rows of a head in memory, of which [begin, end) are there.
struct HeadTile {
  StoredRows rows;
  std::int64_t first_row;  ///< row of memory that row 0 of the tile is, or would be
  std::int64_t column;     ///< where the head begins
  int begin, end;
  __device__ __forceinline__ float get(int row, std::int64_t element) const {
    return row >= begin && row < end ? rows.get(first_row + row, column + element) : 0.0F;
  }
};

/// scores = a b^T, each one fma chain over the heads' elements.
__device__ __forceinline__ void score_product(TileShared& shared, const HeadTile& a, const HeadTile& b, int head_size,
                                              Part& scores) {
  for (int r = 0; r < side; ++r)
    for (int c = 0; c < side; ++c) scores[r][c] = 0;
  for (int first = 0; first < head_size; first += strip) {
    const int count = head_size - first < strip ? head_size - first : strip;
    __syncthreads();
    for (int e = static_cast<int>(threadIdx.x); e < tile_size * strip; e += static_cast<int>(tile_threads)) {
      const int row = e / strip, at = e % strip;
      shared.strips.left[row][at] = at < count ? a.get(row, first + at) : 0.0F;
      shared.strips.right[row][at] = at < count ? b.get(row, first + at) : 0.0F;
    }
    __syncthreads();
#pragma unroll 2  // more would take the registers that sums of large heads are in
    for (int at = 0; at < count; ++at) {
      float left[side], right[side];
      for (int r = 0; r < side; ++r) left[r] = shared.strips.left[own_row(r)][at];
      for (int c = 0; c < side; ++c) right[c] = shared.strips.right[own_column(c)][at];
      for (int r = 0; r < side; ++r)
        for (int c = 0; c < side; ++c) scores[r][c] = fmaf(left[r], right[c], scores[r][c]);
    }
  }
}

/// Leaves a tile for value_product().
__device__ __forceinline__ void keep_scores(TileShared& shared, const Part& scores) {
  for (int r = 0; r < side; ++r)
    for (int c = 0; c < side; ++c) shared.scores[own_row(r)][own_column(c)] = scores[r][c];
}

/// The kept tile, or its transpose, times columns [first, first + 64) of `values`: one chain over `count` rows of these.
template <bool transposed>
__device__ __forceinline__ void value_product(TileShared& shared, const HeadTile& values, int first, int head_size, int count,
                                              Part& result) {
  __syncthreads();
  for (int e = static_cast<int>(threadIdx.x); e < tile_size * part_columns; e += static_cast<int>(tile_threads)) {
    const int row = e / part_columns, at = e % part_columns;
    shared.values[row][at] = first + at < head_size ? values.get(row, first + at) : 0.0F;
  }
  __syncthreads();
  for (int r = 0; r < side; ++r)
    for (int c = 0; c < side; ++c) result[r][c] = 0;
#pragma unroll 2
  for (int k = 0; k < count; ++k) {
    float left[side], right[side];
    for (int r = 0; r < side; ++r) left[r] = transposed ? shared.scores[k][own_row(r)] : shared.scores[own_row(r)][k];
    for (int c = 0; c < side; ++c) right[c] = shared.values[k][own_column(c)];
    for (int r = 0; r < side; ++r)
      for (int c = 0; c < side; ++c) result[r][c] = fmaf(left[r], right[c], result[r][c]);
  }
}

/// 2^x for x <= 0; 2^-126 below that.
__device__ __forceinline__ float weight_of(float x) { return power_of_two(max_of(-126.0F, x)); }

/// ln x for what is not subnormal, as the CPU's lse has it (musl's algorithm in Highway's operations).
__device__ __forceinline__ float logarithm_of_total(float x) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(x) + (0x3F800000U - 0x3F3504F3U);
  const auto exponent = static_cast<float>(static_cast<std::int32_t>(bits >> 23U) - 127);
  const float y = std::bit_cast<float>((bits & 0x7FFFFFU) + 0x3F3504F3U), above = y - 1.0F, z = above / (y + 1.0F);
  const float square = z * z, fourth = square * square;
  const float poly =
      fmaf(fmaf(0.28498786688F, fourth, 0.66666662693F), square, fmaf(0.24279078841F, fourth, 0.40000972152F) * fourth);
  const float low = fmaf(z, above - poly, -(exponent * 9.0580006145e-6F)) - above;
  return fmaf(exponent, 0.69313812256F, -low);
}

/// Arguments of a call that hold for all its heads.
struct Heads {
  AttentionShape shape;
  float scale;
  float softcap;  ///< of scores before they are scaled; 0: none
  bool drops = false;
  DropMask mask = {};
  std::int64_t first_sample = 0, first_index = 0, index_stride = 0;

  __device__ __forceinline__ std::int64_t column_of(std::int64_t head) const { return head * shape.head_size; }
  __device__ __forceinline__ float capped(float score) const {
    return softcap > 0 ? hyperbolic_tangent(score * (1 / softcap)) * softcap : score;
  }
  /// Whether a weight is not dropped; places are counted from key 0.
  __device__ __forceinline__ bool keeps(std::int64_t sample, std::int64_t head, std::int64_t query, std::int64_t key) const {
    return mask.keeps(first_sample + sample, shape.first_key + query, index_of(head, key));
  }
  /// Whether the weights of a key and of the next one are not dropped.
  __device__ __forceinline__ void keep_two(std::int64_t sample, std::int64_t head, std::int64_t query, std::int64_t key,
                                           bool (&kept)[2]) const {
    mask.keep_two(first_sample + sample, shape.first_key + query, index_of(head, key), kept);
  }
  /// The factor of a weight by dropout.
  __device__ __forceinline__ float factor(std::int64_t sample, std::int64_t head, std::int64_t query, std::int64_t key) const {
    return keeps(sample, head, query, key) ? mask.kept : 0.0F;
  }
  /// The index of a weight in its query's dropout mask.
  __device__ __forceinline__ std::int64_t index_of(std::int64_t head, std::int64_t key) const {
    return first_index + head * index_stride + shape.first_key + key;
  }
};

/// Queries of a sample, or of a text, and the keys that there are for them.
struct Queries {
  std::int64_t sample;     ///< number
  std::int64_t first_row;  ///< of q
  std::int64_t count;
  std::int64_t position;   ///< of the first query, counted from key 0
  std::int64_t first_key;  ///< row of k and v, where they lie in order
  std::int64_t keys;
  const std::int32_t* pages = nullptr;  ///< for each block of keys its block of rows in k and v; null: they lie in order
  /// by place of a query: the position of the sample before which it sees no key; null: it sees all
  const std::int32_t* starts = nullptr;

  __device__ __forceinline__ std::int64_t end() const { return position + count; }
  /// The place of the first query of tile `number`. Tiles end at multiples of 64, counted from key 0.
  __device__ __forceinline__ std::int64_t tile_place(std::int64_t number) const {
    return (position / tile_size + number) * tile_size;
  }
  /// The first key that a query sees.
  __device__ __forceinline__ std::int64_t first_seen(std::int64_t place, std::int64_t sample_first_key) const {
    if (starts == nullptr || starts[place] <= sample_first_key) return 0;
    return starts[place] - sample_first_key;
  }
  /// The row of k and v that has key `block`, a multiple of 64.
  __device__ __forceinline__ std::int64_t key_row(std::int64_t block) const {
    return pages == nullptr ? first_key + block : std::int64_t{pages[block / tile_size]} * tile_size;
  }
  /// Rows of q, o or a tensor of their form, for the tile at `place`.
  __device__ __forceinline__ HeadTile query_tile(const StoredRows& rows, std::int64_t place, std::int64_t column) const {
    const std::int64_t before = position - place, behind = end() - place;
    return {rows, first_row - before, column, before > 0 ? static_cast<int>(before) : 0,
            behind < tile_size ? static_cast<int>(behind) : tile_size};
  }
  __device__ __forceinline__ HeadTile key_tile(const StoredRows& rows, std::int64_t block, std::int64_t column) const {
    const std::int64_t left = keys - block;
    return {rows, key_row(block), column, 0, left < tile_size ? static_cast<int>(left) : tile_size};
  }
};

inline Heads heads_of(const AttentionShape& shape, const DropoutSite& dropout) {
  Heads heads{.shape = shape,
              .scale = static_cast<float>(shape.score_scale()),
              .softcap = static_cast<float>(shape.softcap / shape.score_scale())};
  if (dropout.p == 0) return heads;
  heads.drops = true;
  heads.mask = mask_of(dropout);
  heads.first_sample = dropout.first_sample;
  heads.first_index = dropout.first_index;
  heads.index_stride = dropout.index_stride;
  return heads;
}

/// Where the queries of whole samples are.
struct Samples {
  AttentionShape shape;
  const std::int32_t* starts;  ///< [B, starts_stride] or null
  std::int64_t starts_stride;
  __device__ __forceinline__ Queries at(std::int64_t sample) const {
    return {.sample = sample,
            .first_row = sample * shape.queries,
            .count = shape.queries,
            .position = shape.first_query(),
            .first_key = sample * shape.key_rows,
            .keys = shape.keys,
            .starts = starts == nullptr ? nullptr : starts + sample * starts_stride + shape.first_key};
  }
};

inline Samples samples_of(const AttentionShape& shape, const Tensor& starts) {
  return {shape, data_of<const std::int32_t>(starts), starts ? starts.stride() : 0};
}

/// Texts whose keys lie in pages, as many as a kernel is given by value.
struct Texts {
  static constexpr std::int64_t most = 128;
  CachedText of[most];
  const std::int32_t* pages;
  std::int64_t pages_stride;
  const std::int32_t* starts;
  __device__ Queries at(std::int64_t number) const {
    const CachedText text = of[number];
    return {.sample = 0,
            .first_row = text.first,
            .count = text.rows,
            .position = text.position,
            .first_key = 0,
            .keys = text.position + text.rows,
            .pages = pages + text.text * pages_stride,
            .starts = starts};
  }
};

inline Texts texts_of(const CachedAttention& call, std::span<const CachedText> some) {
  Texts texts{.of = {},
              .pages = data_of<const std::int32_t>(call.pages),
              .pages_stride = call.pages.stride(),
              .starts = data_of<const std::int32_t>(call.starts)};
  std::ranges::copy(some, texts.of);
  return texts;
}

/// Heads that share keys, as many such parts as a kernel is given by value.
struct HeadParts {
  static constexpr std::int64_t most = 128;
  std::int64_t first;  // number of the first part, from which its columns of dk and dv follow
  HeadPart of[most];
};

/// Tiles of queries that end at multiples of 64.
inline std::int64_t query_tiles(std::int64_t position, std::int64_t count) {
  return div_up(position + count, tile_size) - position / tile_size;
}

/// Calls body(std::integral_constant<int, n>()) for the parts of 64 columns that a head has: 1, 2 or 4.
template <class Body>
void with_parts(std::int64_t head_size, const Body& body) {
  if (head_size <= part_columns) return body(std::integral_constant<int, 1>());
  if (head_size <= 2 * part_columns) return body(std::integral_constant<int, 2>());
  body(std::integral_constant<int, 4>());
}

}  // namespace lockstep::ops::cuda
