// The twins of PTX: products on tensor cores with copies that run meanwhile.

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

#include "cuda/kernels.h"
#include "cuda/tensor_product.cuh"

namespace lockstep::emulation {
namespace {

std::vector<__nv_bfloat16> random_halves(std::size_t count, unsigned seed) {
  std::mt19937 engine(seed);
  std::vector<__nv_bfloat16> numbers(count);
  for (__nv_bfloat16& x : numbers) x = __float2bfloat16_rn(static_cast<float>(engine()) * 0x1p-31F - 1);
  return numbers;
}

/// The largest error, where every number is there.
double error_of(int blocks, int k, bool transposed, unsigned seed) {
  const int rows = blocks * static_cast<int>(product_rows);
  const auto a = random_halves(static_cast<std::size_t>(rows * k), seed);
  const auto b = random_halves(static_cast<std::size_t>(step * k), seed + 1);
  const DeviceNumbers<__nv_bfloat16> far_a(a), far_b(b);
  const DeviceNumbers<float> far_c(std::vector<float>(static_cast<std::size_t>(rows * step)));
  run(dim3(static_cast<unsigned>(blocks)), product_threads, sizeof(ProductShared), tensor_product, far_c.data(), far_a.data(),
      far_b.data(), k, transposed);
  const std::vector<float> c = far_c.read();
  double largest = 0;
  for (int i = 0; i < rows; ++i) {
    for (int j = 0; j < step; ++j) {
      double sum = 0;
      for (int l = 0; l < k; ++l) {
        sum += static_cast<double>(__bfloat162float(a[static_cast<std::size_t>(i * k + l)])) *
               __bfloat162float(b[static_cast<std::size_t>(transposed ? l * step + j : j * k + l)]);
      }
      const double error = std::abs(sum - c[static_cast<std::size_t>(i * step + j)]);
      if (!(error <= largest)) largest = error;
    }
  }
  return largest;
}

TEST(CudaTensorCores, ProductsAreRightInEveryOrder) {
  for (unsigned seed = 1; seed <= 10; ++seed) {
    set_seed(seed);
    for (const int k : {16, 32, 208}) {
      EXPECT_LT(error_of(2, k, false, seed), 2e-5);
      EXPECT_LT(error_of(2, k, true, seed), 2e-5);
    }
  }
}

// 1 + 2^-24 + 2^-25: to the nearest it would be 1 + 2^-23. The last is cut off when the significands are aligned, and then the
// other.
__global__ void two_products(float* sum) {
  const bool first_row = threadIdx.x / 4 == 0, first_pair = threadIdx.x % 4 == 0;
  float d[4] = {1, 0, 0, 0};
  // a[0][0] = a[0][1] = b[0][0] = 2^-12, b[1][0] = 2^-13.
  const std::uint32_t a[4] = {first_row && first_pair ? 0x39803980U : 0, 0, 0, 0};
  const std::uint32_t b[2] = {first_row && first_pair ? 0x39003980U : 0, 0};
  ops::cuda::mma_16816(d, a, b);
  if (threadIdx.x == 0) *sum = d[0];
}

TEST(CudaTensorCores, WhatIsBelowTheLastBitIsCutOff) {
  const DeviceNumbers<float> sum({0});
  run(1, 32, 0, two_products, sum.data());
  EXPECT_EQ(sum.read()[0], 1);
}

}  // namespace
}  // namespace lockstep::emulation
