// Products of bf16 operands on tensor cores: tiles of 128 x 128, of which each of 8 warps has 64 x 32. An element's blocks of 256
// k are chains of mma instructions from zero, 16 k each, and are added in order in f32. So it depends on its row, its column and
// K alone.

#include "ops/cuda/device/launch.h"
#include "ops/cuda/native/tensor_core.cuh"
#include "ops/cuda/product/product.h"

namespace lockstep::ops::cuda {
namespace {

constexpr int tile = 128, depth = 32, pad = 8;  // of C, of k at a time; a pad keeps rows of a fragment in different banks
constexpr unsigned tile_threads = 256;
constexpr int warp_rows = 64, warp_columns = 32;               // of C, of a warp
constexpr int high = warp_rows / 16, wide = warp_columns / 8;  // fragments of a warp
constexpr int piece = 8;                                       // elements of a copy
constexpr std::int64_t block_steps = 256 / depth;
constexpr int finish_rows = 32;  // that go through shared memory at a time

/// Rows of k, or where neighbours in memory are rows of C, rows of these.
struct alignas(16) Strip {
  BFloat16 x[tile * (depth + pad)];
};
struct TensorShared {
  union {
    Strip strips[2][2];  // stages of A and B
    float c[finish_rows][tile + 4];
  };
};

using Fragments = float[high][wide][4];

struct Lane {
  int number = static_cast<int>(threadIdx.x) % 32;
  int row = static_cast<int>(threadIdx.x) / 128 * warp_rows;  // of the warp's part of the tile
  int column = static_cast<int>(threadIdx.x) / 32 % 4 * warp_columns;
};

/// k [k, k + depth) of `tile` rows from `first`; what is behind `end` or `count` is zero.
__device__ __forceinline__ void load_strip(Strip& to, const Operand& from, std::int64_t first, std::int64_t count, std::int64_t k,
                                           std::int64_t end) {
  const bool along = from.along == 1;
  const auto* const data = reinterpret_cast<const BFloat16*>(from.data);
  for (int c = static_cast<int>(threadIdx.x); c < tile * depth / piece; c += static_cast<int>(tile_threads)) {
    const int i = along ? c / (depth / piece) : c % (tile / piece) * piece;
    const int kk = along ? c % (depth / piece) * piece : c / (tile / piece);
    BFloat16* const place = to.x + (along ? i * (depth + pad) + kk : kk * (tile + pad) + i);
    const BFloat16* const source = data + (first + i) * from.across + (k + kk) * from.along;
    const std::int64_t rows = count - first - i, left = end - k - kk, room = along ? left : rows;
    if (rows > 0 && left > 0 && room >= piece && reinterpret_cast<std::uintptr_t>(source) % 16 == 0) {
      copy_16_async(place, source);
      continue;
    }
    for (int e = 0; e < piece; ++e) place[e] = rows > 0 && left > 0 && e < room ? source[e] : BFloat16{};
  }
}

/// sums += the products of a strip.
__device__ __forceinline__ void add_strip(const Strip& a, bool a_along, const Strip& b, bool b_along, const Lane& lane,
                                          Fragments& sums) {
  const int l = lane.number;
#pragma unroll
  for (int kk = 0; kk < depth; kk += 16) {
    std::uint32_t left[high][4], right[wide / 2][4];
#pragma unroll
    for (int m = 0; m < high; ++m) {
      const int row = lane.row + m * 16;
      if (a_along) {
        ldmatrix_x4(left[m], a.x + (row + l % 16) * (depth + pad) + kk + l / 16 * 8);
      } else {
        ldmatrix_x4_transposed(left[m], a.x + (kk + l % 8 + l / 16 * 8) * (tile + pad) + row + l / 8 % 2 * 8);
      }
    }
#pragma unroll
    for (int n = 0; n < wide / 2; ++n) {
      const int column = lane.column + n * 16;
      if (b_along) {
        ldmatrix_x4(right[n], b.x + (column + l / 16 * 8 + l % 8) * (depth + pad) + kk + l / 8 % 2 * 8);
      } else {
        ldmatrix_x4_transposed(right[n], b.x + (kk + l % 8 + l / 8 % 2 * 8) * (tile + pad) + column + l / 16 * 8);
      }
    }
#pragma unroll
    for (int m = 0; m < high; ++m) {
#pragma unroll
      for (int n = 0; n < wide; ++n) mma_16816(sums[m][n], left[m], {right[n / 2][n % 2 * 2], right[n / 2][n % 2 * 2 + 1]});
    }
  }
}

/// total = total + sums, or sums where nothing has begun; sums = 0.
__device__ __forceinline__ void end_block(Fragments& total, Fragments& sums, bool begun) {
#pragma unroll
  for (int m = 0; m < high; ++m) {
#pragma unroll
    for (int n = 0; n < wide; ++n) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        total[m][n][e] = begun ? total[m][n][e] + sums[m][n][e] : sums[m][n][e];
        sums[m][n][e] = 0;
      }
    }
  }
}

__device__ __forceinline__ void multiply_tile(const ProductTask& task, TensorShared& shared, const Lane& lane, bool begun,
                                              Fragments& total) {
  const std::int64_t i0 = std::int64_t{blockIdx.x} * tile, j0 = std::int64_t{blockIdx.y} * tile;
  const std::int64_t steps = (task.k + depth - 1) / depth;
  const auto load = [&](std::int64_t step) {
    Strip(&stage)[2] = shared.strips[step % 2];
    load_strip(stage[0], task.a, i0, task.m, step * depth, task.k);
    load_strip(stage[1], task.b, j0, task.n, step * depth, task.k);
    copies_commit();
  };
  Fragments sums = {};
  if (steps > 0) load(0);
  for (std::int64_t step = 0; step < steps; ++step) {
    if (step + 1 < steps) {
      load(step + 1);
      copies_wait<1>();
    } else {
      copies_wait<0>();
    }
    __syncthreads();
    const Strip(&stage)[2] = shared.strips[step % 2];
    add_strip(stage[0], task.a.along == 1, stage[1], task.b.along == 1, lane, sums);
    if ((step + 1) % block_steps == 0 || step + 1 == steps) end_block(total, sums, begun || step >= block_steps);
    __syncthreads();
  }
}

/// Where element e of fragment (m, n) lies in the tile.
__device__ __forceinline__ int row_of(const Lane& lane, int m, int e) { return lane.row + m * 16 + lane.number / 4 + e / 2 * 8; }
__device__ __forceinline__ int column_of(const Lane& lane, int n, int e) {
  return lane.column + n * 8 + lane.number % 4 * 2 + e % 2;
}

/// What the total begins with.
__device__ __forceinline__ void load_onto(const ProductTask& task, const Lane& lane, Fragments& total) {
#pragma unroll
  for (int m = 0; m < high; ++m) {
#pragma unroll
    for (int n = 0; n < wide; ++n) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const std::int64_t i = std::int64_t{blockIdx.x} * tile + row_of(lane, m, e);
        const std::int64_t j = std::int64_t{blockIdx.y} * tile + column_of(lane, n, e);
        total[m][n][e] = i < task.m && j < task.n ? *task.onto.at(i, j) : 0.0F;
      }
    }
  }
}

/// The tile goes through shared memory, 16 rows of each warp at a time, so that rows are stored by neighbouring threads.
__device__ __forceinline__ void finish_tile(const ProductTask& task, TensorShared& shared, const Lane& lane,
                                            const Fragments& total) {
  const std::int64_t i0 = std::int64_t{blockIdx.x} * tile, j0 = std::int64_t{blockIdx.y} * tile;
#pragma unroll 1
  for (int turn = 0; turn < high; ++turn) {
#pragma unroll
    for (int m = 0; m < high; ++m) {
      if (m != turn) continue;  // fragments are registers, which have no index
#pragma unroll
      for (int n = 0; n < wide; ++n) {
#pragma unroll
        for (int e = 0; e < 4; ++e)
          shared.c[lane.row / warp_rows * 16 + lane.number / 4 + e / 2 * 8][column_of(lane, n, e)] = total[m][n][e];
      }
    }
    __syncthreads();
#pragma unroll 1
    for (int e = static_cast<int>(threadIdx.x); e < finish_rows * tile; e += static_cast<int>(tile_threads)) {
      const int row = e / tile, column = e % tile;
      const std::int64_t i = i0 + row / 16 * warp_rows + turn * 16 + row % 16, j = j0 + column;
      if (i < task.m && j < task.n) task.finish(i, j, shared.c[row][column]);
    }
    __syncthreads();
  }
}

__global__ void __launch_bounds__(tile_threads, 1) tensor_product_kernel(ProductTask task) {
  auto& shared = shared_memory<TensorShared>();
  const Lane lane;
  Fragments total = {};
  if (task.onto.data != nullptr) load_onto(task, lane, total);
  multiply_tile(task, shared, lane, task.onto.data != nullptr, total);
  finish_tile(task, shared, lane, total);
}

}  // namespace

void multiply_on_tensor_cores(const Context& context, const ProductTask& task) {
  launch(context, {dim3(blocks_of(task.m, tile), blocks_of(task.n, tile)), tile_threads, sizeof(TensorShared)},
         &tensor_product_kernel, task);
}

}  // namespace lockstep::ops::cuda
