// Products by fused multiply-adds of floats: tiles of 64 x 64, of which each of 256 threads has 4 x 4 elements in registers.

#include "ops/cuda/device/launch.h"
#include "ops/cuda/device/sum_tree.cuh"
#include "ops/cuda/native/tensor_core.cuh"
#include "ops/cuda/product/product.h"

namespace lockstep::ops::cuda {
namespace {

constexpr int tile = 64, side = 4, depth = 16;  // of C, of a thread's part, and of k at a time
constexpr unsigned tile_threads = 256;
constexpr int across = tile / side;  // threads
constexpr std::int64_t k_block = 256;
constexpr int own = side * side;  // a thread's elements

struct TileShared {
  alignas(16) float a[depth][tile + side];
  alignas(16) float b[depth][tile + side];
  float c[tile][tile + 1];
};

/// k [k, k + depth) of `tile` rows from `first`; what is behind `end` or `count` is zero.
__device__ __forceinline__ void load_strip(float (&to)[depth][tile + side], const Operand& from, std::int64_t first,
                                           std::int64_t count, std::int64_t k, std::int64_t end) {
  const int t = static_cast<int>(threadIdx.x);
  const bool along = from.along == 1;  // neighbours in memory go to neighbouring threads
  for (int part = 0; part < tile * depth / static_cast<int>(tile_threads); ++part) {
    const int i = along ? t / depth + part * (static_cast<int>(tile_threads) / depth) : t % tile;
    const int kk = along ? t % depth : t / tile + part * (static_cast<int>(tile_threads) / tile);
    float value = 0;
    if (first + i < count && k + kk < end) {
      const std::int64_t at = (first + i) * from.across + (k + kk) * from.along;
      value = from.narrow ? load(reinterpret_cast<const BFloat16*>(from.data) + at)
                          : load(reinterpret_cast<const float*>(from.data) + at);
    }
    to[kk][i] = value;
  }
}

/// sums += the products of a strip of at most `depth` k.
__device__ __forceinline__ void add_strip(const TileShared& shared, float (&sums)[own], int row, int column) {
  for (int kk = 0; kk < depth; ++kk) {
    float a[side], b[side];
    for (int r = 0; r < side; ++r) a[r] = shared.a[kk][row + r];
    for (int c = 0; c < side; ++c) b[c] = shared.b[kk][column + c];
    for (int r = 0; r < side; ++r)
      for (int c = 0; c < side; ++c) sums[r * side + c] = fmaf(a[r], b[c], sums[r * side + c]);
  }
}

/// Adds a run of k to `total` in blocks of 256; where nothing has `begun`, the first is the total.
__device__ __forceinline__ void add_run(const ProductTask& task, TileShared& shared, std::int64_t first, std::int64_t count,
                                        bool begun, float (&total)[own]) {
  const std::int64_t i0 = std::int64_t{blockIdx.x} * tile, j0 = std::int64_t{blockIdx.y} * tile;
  const int row = static_cast<int>(threadIdx.x) / across * side, column = static_cast<int>(threadIdx.x) % across * side;
  for (std::int64_t block = first; block < first + count; block += k_block) {
    const std::int64_t end = block + k_block < first + count ? block + k_block : first + count;
    float sums[own] = {};
    for (std::int64_t k = block; k < end; k += depth) {
      __syncthreads();
      load_strip(shared.a, task.a, i0, task.m, k, end);
      load_strip(shared.b, task.b, j0, task.n, k, end);
      __syncthreads();
      add_strip(shared, sums, row, column);
    }
    for (int e = 0; e < own; ++e) total[e] = begun || block > first ? total[e] + sums[e] : sums[e];
  }
}

/// The tile goes through shared memory, so that rows are stored by neighbouring threads.
__device__ __forceinline__ void finish_tile(const ProductTask& task, TileShared& shared, const float (&total)[own]) {
  const std::int64_t i0 = std::int64_t{blockIdx.x} * tile, j0 = std::int64_t{blockIdx.y} * tile;
  const int t = static_cast<int>(threadIdx.x), row = t / across * side, column = t % across * side;
  for (int e = 0; e < own; ++e) shared.c[row + e / side][column + e % side] = total[e];
  __syncthreads();
  for (int e = t * finish_columns; e < tile * tile; e += static_cast<int>(tile_threads) * finish_columns) {
    const std::int64_t i = i0 + e / tile, j = j0 + e % tile;
    if (!(i < task.m && j < task.n)) continue;
    float values[finish_columns];
    for (int c = 0; c < finish_columns; ++c) values[c] = shared.c[e / tile][e % tile + c];
    task.finish(i, j, values, task.n - j);
  }
}

/// What the total begins with, or what is added to it.
__device__ __forceinline__ void load_onto(const ProductTask& task, float (&total)[own]) {
  const std::int64_t i0 = std::int64_t{blockIdx.x} * tile + static_cast<int>(threadIdx.x) / across * side;
  const std::int64_t j0 = std::int64_t{blockIdx.y} * tile + static_cast<int>(threadIdx.x) % across * side;
  for (int e = 0; e < own; ++e) {
    const std::int64_t i = i0 + e / side, j = j0 + e % side;
    total[e] = i < task.m && j < task.n ? *task.onto.at(i, j) : 0.0F;
  }
}

__global__ void __launch_bounds__(tile_threads) product_kernel(ProductTask task) {
  auto& shared = shared_memory<TileShared>();
  float total[own] = {};
  if (task.onto.data != nullptr) load_onto(task, total);
  add_run(task, shared, 0, task.k, task.onto.data != nullptr, total);
  finish_tile(task, shared, total);
}

__global__ void __launch_bounds__(tile_threads) grid_product_kernel(ProductTask task, GridRuns grid) {
  auto& shared = shared_memory<TileShared>();
  SumTree<own> tree;
  float total[own] = {};
  int next = 0;
  for (int range = 0; range < grid.ranges; ++range) {
    for (float& sum : total) sum = 0;
    for (bool begun = false; next < grid.ends[range]; ++next, begun = true) {
      add_run(task, shared, grid.runs[next].first, grid.runs[next].count, begun, total);
    }
    tree.put(range, total);
  }
  if (task.onto.data != nullptr) {
    float before[own];
    load_onto(task, before);
    for (int e = 0; e < own; ++e) total[e] = before[e] + total[e];
  }
  finish_tile(task, shared, total);
}

}  // namespace

void multiply(const Context& context, const ProductTask& task, const SumGrid* grid) {
  if (context.bf16 == Bf16Products::tensor_cores && (task.a.narrow || task.b.narrow) && grid == nullptr)
    return multiply_on_tensor_cores(context, task);
  const LaunchShape shape{dim3(blocks_of(task.m, tile), blocks_of(task.n, tile)), tile_threads, sizeof(TileShared)};
  if (grid == nullptr) return launch(context, shape, &product_kernel, task);
  launch(context, shape, &grid_product_kernel, task, runs_of(*grid));
}

}  // namespace lockstep::ops::cuda
