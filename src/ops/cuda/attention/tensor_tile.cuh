#pragma once

// Attention of bf16 on tensor cores, for 4 or 8 warps. Some rows of a head stay, 16 or 32 with each warp. Rows of the other side
// come by in strips, and every warp sees every strip. A warp's rows times a strip are fragments of 16 x 8.

#include <algorithm>
#include <limits>

#include "ops/cuda/attention/tile.cuh"
#include "ops/cuda/device/block.cuh"
#include "ops/cuda/device/launch.h"

namespace lockstep::ops::cuda {

inline constexpr int piece = 8;  ///< elements of a copy
inline constexpr float unseen_score = -std::numeric_limits<float>::infinity();

/// [16 high, 8 wide]. In each 16 x 8 a lane has element `(lane / 4, 2 (lane % 4))`, the next one, and the two elements 8 rows
/// below.
template <int high, int wide>
using Fragments = float[high][wide][4];

__device__ __forceinline__ int lane_of_warp() { return static_cast<int>(threadIdx.x) % 32; }
__device__ __forceinline__ int warp_of_block() { return static_cast<int>(threadIdx.x) / 32; }
/// The row and the first of the columns that a lane has of a fragment.
__device__ __forceinline__ int fragment_row() { return lane_of_warp() / 4; }
__device__ __forceinline__ int fragment_column() { return lane_of_warp() % 4 * 2; }

/// Heads in memory, whose rows are tokens.
struct HeadRows {
  const BFloat16* data;
  std::int64_t stride;
  bool in_pieces;  ///< the rows can be copied in pieces of 16 bytes
};
inline HeadRows head_rows(const Tensor& t, std::int64_t head_size) {
  const bool in_pieces = reinterpret_cast<std::uintptr_t>(t.data) % 16 == 0 && t.stride() % piece == 0 && head_size % piece == 0;
  return {data_of<const BFloat16>(t), t.stride(), in_pieces};
}

/// Elements from a row to the next in shared memory. It puts the rows of a matrix of 8 x 8 in different banks.
template <int size>
inline constexpr int row_step = size + piece;

/// Rows of heads in shared memory.
template <int size, int rows>
struct alignas(16) Strip {
  BFloat16 x[rows * row_step<size>];
};

/// Begins to copy rows of a head to shared memory; zeros stand for rows outside of [begin, end) and behind the head's size.
template <int size, int rows, unsigned threads>
__device__ __forceinline__ void load_rows(Strip<size, rows>& to, const HeadRows& from, std::int64_t first_row,
                                          std::int64_t column, int begin, int end, int head_size) {
  constexpr int pieces = size / piece, step = static_cast<int>(threads) / pieces;
  static_assert(rows % step == 0);
  const int number = static_cast<int>(threadIdx.x) % pieces, row = static_cast<int>(threadIdx.x) / pieces;
  const BFloat16* source = from.data + (first_row + row) * from.stride + column + number * piece;
  BFloat16* place = to.x + row * row_step<size> + number * piece;
  const int left = head_size - number * piece;
  if (from.in_pieces) {
#pragma unroll
    for (int r = 0; r < rows; r += step) {
      copy_16_async_or_zero(place + r * row_step<size>, source, left > 0 && row + r >= begin && row + r < end);
      source += step * from.stride;
    }
    return;
  }
#pragma unroll 1
  for (int r = row; r < rows; r += step) {
    for (int e = 0; e < piece; ++e) place[e] = e < left && r >= begin && r < end ? source[e] : BFloat16{};
    place += step * row_step<size>;
    source += step * from.stride;
  }
}

/// Left operands of a product: 16 columns of a warp's rows.
template <int size, int high>
__device__ __forceinline__ void load_left(const BFloat16* rows, int step, std::uint32_t (&left)[high][4]) {
  const int l = lane_of_warp();
#pragma unroll
  for (int m = 0; m < high; ++m) ldmatrix_x4(left[m], rows + (m * 16 + l % 16) * row_step<size> + step * 16 + l / 16 * 8);
}

/// A warp's rows, read from shared memory as they are needed.
template <int size, int high>
struct SharedRows {
  const BFloat16* rows;
  __device__ __forceinline__ explicit SharedRows(const BFloat16* first) : rows(first) {}
  __device__ __forceinline__ void get(int step, std::uint32_t (&left)[high][4]) const { load_left<size, high>(rows, step, left); }
};
/// A warp's rows in registers.
template <int size, int high>
struct KeptRows {
  std::uint32_t kept[size / 16][high][4];
  __device__ __forceinline__ explicit KeptRows(const BFloat16* rows) {
#pragma unroll
    for (int step = 0; step < size / 16; ++step) load_left<size, high>(rows, step, kept[step]);
  }
  __device__ __forceinline__ void get(int step, std::uint32_t (&left)[high][4]) const {
#pragma unroll
    for (int m = 0; m < high; ++m)
#pragma unroll
      for (int e = 0; e < 4; ++e) left[m][e] = kept[step][m][e];
  }
};

/// scores = left strip^T, a chain over the heads' elements, 16 at a time.
template <int size, int high, int wide, class Left>
__device__ __forceinline__ void score_product(const Left& rows, const BFloat16* strip, Fragments<high, wide>& scores) {
  const int l = lane_of_warp();
#pragma unroll
  for (int m = 0; m < high; ++m)
#pragma unroll
    for (int n = 0; n < wide; ++n)
#pragma unroll
      for (int e = 0; e < 4; ++e) scores[m][n][e] = 0;
#pragma unroll
  for (int step = 0; step < size / 16; ++step) {
    std::uint32_t left[high][4];
    rows.get(step, left);
#pragma unroll
    for (int n = 0; n < wide; n += 2) {
      std::uint32_t right[4];
      ldmatrix_x4(right, strip + (n * 8 + l / 16 * 8 + l % 8) * row_step<size> + step * 16 + l / 8 % 2 * 8);
#pragma unroll
      for (int m = 0; m < high; ++m) {
        mma_16816(scores[m][n], left[m], {right[0], right[1]});
        mma_16816(scores[m][n + 1], left[m], {right[2], right[3]});
      }
    }
  }
}

/// Fragments rounded to bf16: a pair of each fragment's upper 8 rows and a pair of its lower 8.
template <int high, int wide>
using Pairs = std::uint32_t[high][wide][2];

template <int high, int wide>
__device__ __forceinline__ void round_to_pairs(const Fragments<high, wide>& from, Pairs<high, wide>& to) {
#pragma unroll
  for (int m = 0; m < high; ++m) {
#pragma unroll
    for (int n = 0; n < wide; ++n) {
      to[m][n][0] = pack_bf16(from[m][n][0], from[m][n][1]);
      to[m][n][1] = pack_bf16(from[m][n][2], from[m][n][3]);
    }
  }
}

/// sums += weights strip; the chain goes on, 16 rows of the strip at a time.
template <int size, int high, int wide>
__device__ __forceinline__ void value_product(const Pairs<high, wide>& weights, const BFloat16* strip,
                                              Fragments<high, size / 8>& sums) {
  const int l = lane_of_warp();
#pragma unroll
  for (int n = 0; n < wide; n += 2) {
#pragma unroll
    for (int c = 0; c < size / 8; c += 2) {
      std::uint32_t right[4];
      ldmatrix_x4_transposed(right, strip + (n * 8 + l % 16) * row_step<size> + (c + l / 16) * 8);
#pragma unroll
      for (int m = 0; m < high; ++m) {
        const std::uint32_t left[4] = {weights[m][n][0], weights[m][n][1], weights[m][n + 1][0], weights[m][n + 1][1]};
        mma_16816(sums[m][c], left, {right[0], right[1]});
        mma_16816(sums[m][c + 1], left, {right[2], right[3]});
      }
    }
  }
}

/// body(m, n, e, row, column) for every element of a lane, counted from those of the warp's first row and column.
template <int high, int wide, class Body>
__device__ __forceinline__ void for_fragments(const Body& body) {
#pragma unroll
  for (int m = 0; m < high; ++m)
#pragma unroll
    for (int n = 0; n < wide; ++n)
#pragma unroll
      for (int e = 0; e < 4; ++e) body(m, n, e, m * 16 + e / 2 * 8 + fragment_row(), n * 8 + e % 2 + fragment_column());
}

/// scores x become c tanh(x / c).
template <int high, int wide>
__device__ __forceinline__ void cap_scores(float softcap, Fragments<high, wide>& scores) {
  const float f = 2 * log2_e / softcap;
  for_fragments<high, wide>([&](int m, int n, int e, int, int) {
    scores[m][n][e] = fmaf(-2 * softcap, near_reciprocal(1 + near_two_to(scores[m][n][e] * f)), softcap);
  });
}

/// A bit for each element of fragments.
template <int high, int wide>
using Bits = std::conditional_t<(high * wide * 4 > 32), std::uint64_t, std::uint32_t>;
template <int high, int wide>
__device__ __forceinline__ bool has(Bits<high, wide> bits, int m, int n, int e) {
  return (bits >> ((m * wide + n) * 4 + e) & 1U) != 0;
}

/// Draws which weights are kept, of queries and keys from these places on. `keys_stay`: rows are keys and columns queries. It is
/// called before there are scores, which take the registers.
template <int high, int wide, bool keys_stay>
__device__ __forceinline__ Bits<high, wide> draw_kept(const Heads& heads, std::int64_t sample, std::int64_t head, int row,
                                                      int column) {
  Bits<high, wide> bits = 0;
  row += fragment_row();
  column += fragment_column();
#pragma unroll 1
  for (int pair = 0; pair < high * wide * 2; ++pair) {
    const int at = row + pair / (2 * wide) * 16 + pair % 2 * 8, first = column + pair / 2 % wide * 8;
    bool kept[2];
    if constexpr (keys_stay) {
      for (int c = 0; c < 2; ++c) kept[c] = heads.keeps(sample, head, first + c, at);
    } else {
      heads.keep_two(sample, head, at, first, kept);
    }
    bits |= static_cast<Bits<high, wide>>((kept[0] ? 1U : 0U) | (kept[1] ? 2U : 0U)) << pair * 2;
  }
  return bits;
}

/// Rows of results in memory: neighbours are stored together where they can be.
struct ResultRows {
  StoredRows rows;
  bool in_pairs;
  /// The sums that a call goes on from, which are f32.
  __device__ __forceinline__ const float* sums(std::int64_t row, std::int64_t column) const {
    return reinterpret_cast<const float*>(rows.data) + row * rows.stride + column;
  }
  __device__ __forceinline__ void put(std::int64_t row, std::int64_t column, int room, float a, float b) const {
    if (in_pairs && room > 1) {
      std::byte* const at = rows.data + (row * rows.stride + column) * (rows.narrow ? 2 : 4);
      if (rows.narrow) {
        *reinterpret_cast<std::uint32_t*>(at) = pack_bf16(a, b);
      } else {
        *reinterpret_cast<float2*>(at) = {a, b};
      }
      return;
    }
    if (room > 0) rows.put(row, column, a);
    if (room > 1) rows.put(row, column + 1, b);
  }
};
inline ResultRows result_rows(const Tensor& t, std::int64_t head_size) {
  const std::size_t pair = 2 * size_of(t.dtype);
  return {stored_rows(t), reinterpret_cast<std::uintptr_t>(t.data) % pair == 0 && t.stride() % 2 == 0 && head_size % 2 == 0};
}

/// The tile and head of each block of a grid. Heads go in groups, one group after the other; the L2 cache has room for a group's
/// keys. Within a group the longest tiles come first.
struct TileOrder {
  std::int64_t tiles, heads, group;
  struct Place {
    std::int64_t tile, head;  ///< the tile's number from the longest on
  };
  __device__ __forceinline__ Place at(std::int64_t block) const {
    const std::int64_t first = block / (group * tiles) * group, within = block - first * tiles;
    const std::int64_t together = heads - first < group ? heads - first : group, tile = within / together;
    return {tile, first + within - tile * together};
  }
  unsigned blocks() const { return narrow<unsigned>(tiles * heads); }
};
inline TileOrder tile_order(std::int64_t tiles, std::int64_t heads, std::int64_t bytes_of_head) {
  constexpr std::int64_t room = 16 << 20;
  return {tiles, heads,
          std::clamp<std::int64_t>(room / std::max<std::int64_t>(bytes_of_head, 1), 1, std::max<std::int64_t>(heads, 1))};
}

/// Calls body(std::integral_constant<int, size>()) for the size that heads are filled up to with zeros.
template <class Body>
void with_head_size(std::int64_t head_size, const Body& body) {
  if (head_size <= 64) return body(std::integral_constant<int, 64>());
  body(std::integral_constant<int, 128>());
}

}  // namespace lockstep::ops::cuda
