// Products on tensor cores: the instructions of a warp, which every GPU has, and how a product becomes kernels.

#include "ops/cuda/device/each.cuh"
#include "ops/cuda/product/tensor_tile.cuh"

namespace lockstep::ops::cuda {
namespace tensor {
namespace {

constexpr std::int64_t token_block = 8192;

/// Products by instructions of a warp: each of 8 warps has 64 x 32 elements.
struct Warps {
  static constexpr int high = 4, wide = 4;  // fragments of 16 x 8

  __device__ static int row(int e) { return thread() / 128 * 64 + e / (wide * 4) * 16 + thread() % 32 / 4 + e / 2 % 2 * 8; }
  __device__ static int column(int e) { return thread() / 32 % 4 * 32 + e / 4 % wide * 8 + thread() % 4 * 2 + e % 2; }

  /// Where k, a multiple of 8, of the strip's row begins.
  __device__ static const BFloat16* along_at(const Strip& strip, int row, int k) {
    return strip.x + row * depth + (k / piece ^ row % 8) * piece;
  }
  /// Where the strip's row, a multiple of 8, begins at a k.
  __device__ static const BFloat16* across_at(const Strip& strip, int row, int k) {
    return strip.x + row / 64 * 64 * depth + k * 64 + (row % 64 / piece ^ k % 8) * piece;
  }

  /// sums += the products of a strip.
  template <bool a_along, bool b_along>
  __device__ static void add(const Strip& a, const Strip& b, float (&sums)[own]) {
    const int l = thread() % 32, first_row = thread() / 128 * 64, first_column = thread() / 32 % 4 * 32;
#pragma unroll
    for (int k = 0; k < depth; k += 16) {
      std::uint32_t right[wide / 2][4];
#pragma unroll
      for (int n = 0; n < wide / 2; ++n) {
        const int column = first_column + n * 16;
        if constexpr (b_along) {
          ldmatrix_x4(right[n], along_at(b, column + l / 16 * 8 + l % 8, k + l / 8 % 2 * 8));
        } else {
          ldmatrix_x4_transposed(right[n], across_at(b, column + l / 16 * 8, k + l % 8 + l / 8 % 2 * 8));
        }
      }
#pragma unroll
      for (int m = 0; m < high; ++m) {
        std::uint32_t left[4];
        const int row = first_row + m * 16;
        if constexpr (a_along) {
          ldmatrix_x4(left, along_at(a, row + l % 16, k + l / 16 * 8));
        } else {
          ldmatrix_x4_transposed(left, across_at(a, row + l / 8 % 2 * 8, k + l % 8 + l / 16 * 8));
        }
#pragma unroll
        for (int n = 0; n < wide; ++n) {
          float(&d)[4] = reinterpret_cast<float(&)[4]>(sums[(m * wide + n) * 4]);
          mma_16816(d, left, {right[n / 2][n % 2 * 2], right[n / 2][n % 2 * 2 + 1]});
        }
      }
    }
  }
  __device__ static void loaded() {}
  __device__ static void wait() {}
};

/// sums += the parts, in order.
struct AddParts {
  Rows<float> sums;
  const float* parts;
  std::int64_t count, apart, columns;
  bool onto;
  __device__ void operator()(std::int64_t i, std::int64_t j) const {
    float total = onto ? *sums.at(i, j) : 0.0F;
    for (std::int64_t p = 0; p < count; ++p) total += parts[p * apart + i * columns + j];
    *sums.at(i, j) = total;
  }
};

void multiply_blocks(const Context& context, const ProductTask& task, const KBlocks& blocks, std::int64_t count = 1) {
  context.warpgroups ? start_on_warpgroups(context, task, blocks, count) : start<Warps>(context, task, blocks, count);
}

/// Whether pieces of 16 bytes can be copied as they are.
bool copies(const Operand& operand, std::int64_t rows, std::int64_t k) {
  const bool along = operand.along == 1;
  const std::int64_t stride = along ? operand.across : operand.along, neighbours = along ? k : rows;
  return operand.narrow && reinterpret_cast<std::uintptr_t>(operand.data) % 16 == 0 && stride % piece == 0 &&
         neighbours % piece == 0;
}

/// A sum over tokens in blocks of them: each is a chain from zero, and they are added in order.
void multiply_in_blocks(const Context& context, ProductTask task) {
  const bool accumulate = task.onto.data != nullptr;
  const Rows<float> result{reinterpret_cast<float*>(task.finish.y.data), task.finish.y.stride};
  const std::int64_t size = task.m * task.n, room = std::ssize(context.scratch<float>()) / std::max<std::int64_t>(size, 1);
  task.onto = {};
  if (task.k <= token_block || room < 2) {
    for (std::int64_t k = 0; k < std::max<std::int64_t>(task.k, 1); k += token_block) {
      task.finish.residual = accumulate || k > 0 ? task.finish.y : StoredRows{};
      multiply_blocks(context, task, {k, token_block, 0});
    }
    return;
  }
  float* const parts = context.scratch<float>().data();
  task.finish.y = {reinterpret_cast<std::byte*>(parts), task.n, false};
  for (std::int64_t k = 0, count = 0; k < task.k; k += count * token_block) {
    count = std::min(room, div_up(task.k - k, token_block));
    multiply_blocks(context, task, {k, token_block, size * std::int64_t{sizeof(float)}}, count);
    for_matrix(context, task.m, task.n, AddParts{result, parts, count, size, task.n, accumulate || k > 0});
  }
}

}  // namespace
}  // namespace tensor

void multiply_on_tensor_cores(const Context& context, const ProductTask& given) {
  ProductTask task = given;
  task.a.copies = tensor::copies(task.a, task.m, task.k);
  task.b.copies = tensor::copies(task.b, task.n, task.k);
  if (task.over_tokens) return tensor::multiply_in_blocks(context, task);
  tensor::multiply_blocks(context, task, {0, std::max<std::int64_t>(task.k, 1), 0});
}

}  // namespace lockstep::ops::cuda
