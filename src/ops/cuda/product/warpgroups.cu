// Products on tensor cores by Hopper's instructions of a warpgroup: compiled for sm_90a alone.

#include "ops/cuda/native/warpgroup.cuh"
#include "ops/cuda/product/tensor_tile.cuh"

namespace lockstep::ops::cuda::tensor {
namespace {

/// Products by instructions of a warpgroup, of which each of two has 64 x 128 elements.
struct Warpgroups {
  __device__ static int row(int e) { return thread() / 32 * 16 + thread() % 32 / 4 + e / 2 % 2 * 8; }
  __device__ static int column(int e) { return e / 4 * 8 + thread() % 4 * 2 + e % 2; }

  /// Begins sums += the products of a strip.
  template <bool a_along, bool b_along>
  __device__ static void add(const Strip& a, const Strip& b, float (&sums)[own]) {
    begin_products();
#pragma unroll
    for (int k = 0; k < depth; k += 16) {
      warpgroup_product<a_along, b_along>(sums, a.x + thread() / 128 * 64 * depth + (a_along ? k : k * 64),
                                          b.x + (b_along ? k : k * 64));
    }
    commit_products();
  }
  __device__ static void loaded() { writes_before_products(); }
  __device__ static void wait() { wait_for_products(); }
};

}  // namespace

void start_on_warpgroups(const Context& context, const ProductTask& task, const KBlocks& blocks, std::int64_t count) {
  start<Warpgroups>(context, task, blocks, count);
}

}  // namespace lockstep::ops::cuda::tensor
