#pragma once

// Products of bf16 operands on tensor cores, in tiles of 128 x 128 and strips of 64 k. The class Multiplier has the instructions
// of the GPU at hand. An element is one chain of instructions of 16 k each, from zero or from what it is added onto. So it
// depends on its row, its column and K alone. In shared memory a strip has rows of 128 bytes, whose pieces of 16 bytes are
// swizzled. Piece p of row r lies at the place of piece `p ^ r % 8`.

#include "ops/cuda/device/launch.h"
#include "ops/cuda/native/tensor_core.cuh"
#include "ops/cuda/product/product.h"

namespace lockstep::ops::cuda::tensor {

inline constexpr int tile = 128, depth = 64, stages = 3;  // a tile's side of C, k of a strip, strips in flight
inline constexpr unsigned tile_threads = 256;
inline constexpr int own = tile * tile / static_cast<int>(tile_threads);              // a thread's elements of C
inline constexpr int piece = finish_columns;                                          // elements that one copy moves
inline constexpr int pieces = tile * depth / piece / static_cast<int>(tile_threads);  // pieces of a strip that a thread copies
inline constexpr int finish_pad = 4;

/// A strip of an operand in shared memory. "Along" it has `tile` rows of 64 k. Else it has two halves, each a row for each of 64
/// k, with 64 of the tile's rows or columns.
struct Strip {
  BFloat16 x[tile * depth];
};
struct alignas(1024) TensorShared {
  union {
    Strip strips[stages][2];  // of A and B
    float c[tile][tile + finish_pad];
  };
};

__device__ __forceinline__ int thread() { return static_cast<int>(threadIdx.x); }

/// A run of k in blocks. Results of neighbouring blocks lie `bytes_apart` from each other.
struct KBlocks {
  std::int64_t first, size, bytes_apart;
};

/// A thread's share in copying an operand: `pieces` pieces of each strip, at the same places of all strips.
template <bool along>
class Copies {
 public:
  /// Copies up to `tile` rows from `first` on, of `count` in all, and k from `k` to `end`.
  __device__ Copies(const Operand& from, std::int64_t first, std::int64_t count, std::int64_t k, std::int64_t end)
      : copies_(from.copies),
        narrow_(from.narrow),
        rows_(static_cast<int>(count - first < tile ? count - first : tile)),
        k_(static_cast<int>(end - k)),
        stride_(along ? from.across : from.along) {
    const std::int64_t at = along ? (first + row()) * stride_ + k + this->k() : first + row() + (k + this->k()) * stride_;
    next_ = from.data + at * (narrow_ ? 2 : 4);
  }

  /// Begins to copy the next strip. Elements behind the rows or the last k are zero.
  __device__ void next(Strip& to) {
    BFloat16* const place = to.x + swizzled();
    if (copies_) {
#pragma unroll
      for (int p = 0; p < pieces; ++p)
        copy_16_async_or_zero(place + p * apart, next_ + p * step() * 2,
                              row() + p * rows_apart < rows_ && k() + p * k_apart < k_);
    } else {
#pragma unroll 1
      for (int p = 0; p < pieces; ++p) store_piece(place + p * apart, p);
    }
    next_ += (along ? depth : depth * stride_) * (narrow_ ? 2 : 4);
    k_ -= depth;
  }

 private:
  static constexpr int threads = static_cast<int>(tile_threads);
  static constexpr int rows_apart = along ? threads / (depth / piece) : 0, k_apart = along ? 0 : threads / (tile / piece);
  static constexpr int apart = rows_apart * depth + k_apart * 64;  // in shared memory

  __device__ static int row() { return along ? thread() / (depth / piece) : thread() % (tile / piece) * piece; }
  __device__ static int k() { return along ? thread() % (depth / piece) * piece : thread() / (tile / piece); }
  __device__ static int swizzled() {
    return along ? row() * depth + (k() / piece ^ row() % 8) * piece
                 : row() / 64 * 64 * depth + k() * 64 + (row() % 64 / piece ^ k() % 8) * piece;
  }
  /// From a piece to the thread's next one.
  __device__ std::int64_t step() const { return (along ? rows_apart : k_apart) * stride_; }

  __device__ void store_piece(BFloat16* to, int p) const {
    Neighbours<BFloat16> all;
#pragma unroll
    for (int e = 0; e < piece; ++e) {
      const bool there = row() + p * rows_apart + (along ? 0 : e) < rows_ && k() + p * k_apart + (along ? e : 0) < k_;
      const std::int64_t at = p * step() + e;
      const float value = !there    ? 0.0F
                          : narrow_ ? load(reinterpret_cast<const BFloat16*>(next_) + at)
                                    : load(reinterpret_cast<const float*>(next_) + at);
      store(all.x + e, value);
    }
    *reinterpret_cast<Neighbours<BFloat16>*>(to) = all;
  }

  bool copies_, narrow_;
  int rows_, k_;  // rows and k that are left
  std::int64_t stride_;
  const std::byte* next_;
};

/// Sets a thread's sums of the tile to the elements that the product is added onto.
template <class Multiplier>
__device__ __forceinline__ void load_onto(const ProductTask& task, std::int64_t i0, std::int64_t j0, float (&sums)[own]) {
#pragma unroll
  for (int e = 0; e < own; ++e) {
    const std::int64_t i = i0 + Multiplier::row(e), j = j0 + Multiplier::column(e);
    sums[e] = i < task.m && j < task.n ? *task.onto.at(i, j) : 0.0F;
  }
}

/// Finishes the tile. It goes through shared memory, so that a thread finishes neighbours.
template <class Multiplier>
__device__ __forceinline__ void finish_tile(const ProductTask& task, TensorShared& shared, std::int64_t i0, std::int64_t j0,
                                            const float (&sums)[own]) {
#pragma unroll
  for (int e = 0; e < own; e += 2) {
    *reinterpret_cast<float2*>(&shared.c[Multiplier::row(e)][Multiplier::column(e)]) = make_float2(sums[e], sums[e + 1]);
  }
  __syncthreads();
#pragma unroll 1
  for (int p = thread(); p < tile * tile / piece; p += static_cast<int>(tile_threads)) {
    const int row = p / (tile / piece), column = p % (tile / piece) * piece;
    const std::int64_t i = i0 + row, j = j0 + column;
    if (i >= task.m || j >= task.n) continue;
    float values[piece];
#pragma unroll
    for (int e = 0; e < piece; e += 4) {
      const auto four = *reinterpret_cast<const float4*>(&shared.c[row][column + e]);
      values[e] = four.x, values[e + 1] = four.y, values[e + 2] = four.z, values[e + 3] = four.w;
    }
    task.finish(i, j, values, task.n - j);
  }
}

/// Computes each tile for block z of k, which has a result of its own.
template <class Multiplier, bool a_along, bool b_along>
__global__ void __launch_bounds__(tile_threads, 2) tensor_product_kernel(ProductTask task, KBlocks blocks) {
  auto& shared = shared_memory<TensorShared>();
  const std::int64_t i0 = std::int64_t{blockIdx.x} * tile, j0 = std::int64_t{blockIdx.y} * tile;
  const std::int64_t k = blocks.first + blockIdx.z * blocks.size, end = task.k < k + blocks.size ? task.k : k + blocks.size;
  const auto steps = static_cast<int>((end - k + depth - 1) / depth);
  Copies<a_along> of_a(task.a, i0, task.m, k, end);
  Copies<b_along> of_b(task.b, j0, task.n, k, end);
  const auto load = [&](int step) {
    if (step < steps) {
      Strip(&stage)[2] = shared.strips[step % stages];
      of_a.next(stage[0]);
      of_b.next(stage[1]);
    }
    copies_commit();
  };
  float sums[own] = {};
  if (task.onto.data != nullptr) load_onto<Multiplier>(task, i0, j0, sums);
  load(0);
  load(1);
  for (int step = 0; step < steps; ++step) {
    copies_wait<1>();
    Multiplier::loaded();
    __syncthreads();  // all products are done of the stage that is loaded now
    const Strip(&stage)[2] = shared.strips[step % stages];
    Multiplier::template add<a_along, b_along>(stage[0], stage[1], sums);
    load(step + 2);
    Multiplier::wait();
  }
  copies_wait<0>();
  __syncthreads();
  task.finish.y.data += blockIdx.z * blocks.bytes_apart;
  finish_tile<Multiplier>(task, shared, i0, j0, sums);
}

template <class Multiplier, bool a_along, bool b_along>
void start(const Context& context, const ProductTask& task, const KBlocks& blocks, std::int64_t count) {
  const dim3 grid(blocks_of(task.m, tile), blocks_of(task.n, tile), narrow<unsigned>(count));
  launch(context, {grid, tile_threads, sizeof(TensorShared)}, &tensor_product_kernel<Multiplier, a_along, b_along>, task, blocks);
}

/// Starts the kernels of `count` blocks.
template <class Multiplier>
void start(const Context& context, const ProductTask& task, const KBlocks& blocks, std::int64_t count) {
  if (task.a.along == 1 && task.b.along == 1) return start<Multiplier, true, true>(context, task, blocks, count);
  if (task.a.along == 1) return start<Multiplier, true, false>(context, task, blocks, count);
  if (task.b.along == 1) return start<Multiplier, false, true>(context, task, blocks, count);
  start<Multiplier, false, false>(context, task, blocks, count);
}

/// start() with products of warpgroups.
void start_on_warpgroups(const Context& context, const ProductTask& task, const KBlocks& blocks, std::int64_t count);

}  // namespace lockstep::ops::cuda::tensor
