// The emulation of CUDA: correct kernels compute what they should in every order, and each rule that is broken is told.

#include <gtest/gtest.h>

#include <cstdlib>
#include <functional>
#include <numeric>
#include <string>
#include <vector>

#include "cuda/kernels.h"
#include "ops/cuda/native/tensor_core.cuh"

namespace lockstep::emulation {
namespace {

using ops::cuda::shared_memory;

constexpr int block_size = 96;
struct Numbers {
  float x[block_size];
};

enum Mistake { none, no_barrier, barrier_in_a_branch, leaves_early, two_barriers, behind_the_array };

int thread() { return static_cast<int>(threadIdx.x); }

// Turns 96 numbers of each block round.
__global__ void reverse(float* to, const float* from, Mistake mistake) {
  auto& shared = shared_memory<Numbers>();
  const int first = static_cast<int>(blockIdx.x) * block_size;
  shared.x[thread()] = from[first + thread()];
  if (mistake == leaves_early && thread() == 40) return;
  if (mistake == barrier_in_a_branch && thread() < 32) __syncthreads();
  if (mistake == two_barriers) {
    if (thread() % 2 == 0) {
      __syncthreads();
    } else {
      __syncthreads();
    }
  }
  if (mistake != no_barrier) __syncthreads();
  to[first + thread() + (mistake == behind_the_array ? 64 : 0)] = shared.x[block_size - 1 - thread()];
}

std::vector<float> ascending(std::size_t count) {
  std::vector<float> numbers(count);
  std::iota(numbers.begin(), numbers.end(), 1.0F);
  return numbers;
}

/// How many of the numbers are wrong.
int wrong_numbers(Mistake mistake, std::size_t shared_bytes = sizeof(Numbers)) {
  const std::vector<float> numbers = ascending(3 * block_size);
  const DeviceNumbers<float> from(numbers), to(numbers);
  run(3, block_size, shared_bytes, reverse, to.data(), from.data(), mistake);
  const std::vector<float> result = to.read();
  int wrong = 0;
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    const std::size_t block = i / block_size * block_size;
    if (!(result[i] == numbers[block + block_size - 1 - i % block_size])) ++wrong;
  }
  return wrong;
}

std::string fault_of(Mistake mistake, std::size_t shared_bytes = sizeof(Numbers)) {
  try {
    wrong_numbers(mistake, shared_bytes);
  } catch (const Fault& fault) {
    return fault.what();
  }
  return "none";
}

TEST(CudaEmulation, ABlockExchangesNumbersThroughSharedMemory) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    set_seed(seed);
    EXPECT_EQ(wrong_numbers(none), 0);
  }
}

TEST(CudaEmulation, AMissingBarrierIsSeenInTheNumbers) {
  if (races_are_watched()) GTEST_SKIP() << "ThreadSanitizer would tell it";
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    set_seed(seed);
    EXPECT_GT(wrong_numbers(no_barrier), 10);
  }
}

// Each of two blocks writes where the other one does.
__global__ void write_in_two_blocks(float* to) { to[0] = static_cast<float>(blockIdx.x); }

void end_behind(const std::function<void()>& work) {
  work();
  std::exit(0);
}

// GoogleTest runs a DeathTest before others: a child that was forked from many threads may hang.
TEST(CudaEmulationDeathTest, RacesInABlockAndBetweenBlocksAreTold) {
  if (!races_are_watched()) GTEST_SKIP() << "ThreadSanitizer tells races: make tsan";
  const testing::ExitedWithCode told(66);  // ThreadSanitizer's
  EXPECT_EXIT(end_behind([] { wrong_numbers(no_barrier); }), told, "data race");
  EXPECT_EXIT(end_behind([] { run(2, 1, 0, write_in_two_blocks, DeviceNumbers<float>({1}).data()); }), told, "data race");
}

TEST(CudaEmulation, ThreadsThatNeverMeetAreTold) {
  const std::string branch = fault_of(barrier_in_a_branch), left = fault_of(leaves_early), two = fault_of(two_barriers);
  EXPECT_NE(branch.find("at different barriers, "), std::string::npos) << branch;
  EXPECT_NE(left.find("threads have left, others come to the barrier "), std::string::npos) << left;
  EXPECT_NE(two.find("at different barriers, "), std::string::npos) << two;
  for (const std::string& text : {branch, left, two}) {
    EXPECT_NE(text.find("emulation_test.cpp:"), std::string::npos) << text;
    EXPECT_NE(text.find("reverse"), std::string::npos) << text;
    EXPECT_NE(text.find("(seed "), std::string::npos) << text;
  }
}

TEST(CudaEmulation, TheProgramGoesOnBehindAFault) {
  EXPECT_THROW(wrong_numbers(leaves_early), Fault);
  EXPECT_EQ(wrong_numbers(none), 0);
}

TEST(CudaEmulation, MoreSharedMemoryThanTheLaunchAskedForIsTold) {
  const std::string text = fault_of(none, sizeof(Numbers) - 4);
  EXPECT_NE(text.find("shared memory of 384 bytes is used, the launch asked for 380"), std::string::npos) << text;
}

TEST(CudaEmulationDeathTest, AnAddressBehindAnAllocationEndsTheProgram) {
  EXPECT_DEATH(wrong_numbers(behind_the_array), "reverse, block 2,0,0, thread [0-9]+,0,0 touched device memory of 1152 bytes");
}

TEST(CudaEmulationDeathTest, TheHostsTouchOfDeviceMemoryEndsTheProgram) {
  const DeviceNumbers<float> numbers({1, 2});
  EXPECT_DEATH(std::printf("%f", static_cast<double>(*numbers.data())), "the host touched device memory of 8 bytes, at byte 0");
}

__global__ void index_too_large(float* to, int i) {
  auto& shared = shared_memory<Numbers>();
  shared.x[i] = 1;
  to[0] = shared.x[i];
}
__global__ void misaligned_vector(float* x) { *reinterpret_cast<float4*>(x + 1) = float4{1, 2, 3, 4}; }

TEST(CudaEmulationDeathTest, IndicesAndAlignmentAreChecked) {
  const DeviceNumbers<float> numbers(ascending(8));
  EXPECT_DEATH(run(1, 1, sizeof(Numbers), index_too_large, numbers.data(), block_size), "index 96 out of bounds");
  EXPECT_DEATH(run(1, 1, 0, misaligned_vector, numbers.data()), "misaligned address");
}

// Sums of each half of a warp, of a whole one, and what lanes see of others.
__global__ void warp_sums(float* halves, float* wholes, unsigned* votes, int lanes_of_sum) {
  auto x = static_cast<float>(thread());
  for (int by = 8; by > 0; by /= 2) x += __shfl_xor_sync(thread() % 32 < 16 ? 0xffffU : 0xffff0000U, x, by);
  halves[thread()] = x;
  if (thread() % 32 < lanes_of_sum) x += __shfl_xor_sync(~0U, x, 16);
  wholes[thread()] = x;
  votes[thread()] = __ballot_sync(~0U, thread() % 3 == 0 ? 1 : 0);
}

TEST(CudaEmulation, WarpsExchangeNumbersByHalvesAndAsAWhole) {
  const DeviceNumbers<float> halves(ascending(64)), wholes(ascending(64));
  const DeviceNumbers<unsigned> votes(std::vector<unsigned>(64));
  run(1, 64, 0, warp_sums, halves.data(), wholes.data(), votes.data(), 32);
  const std::vector<float> half = halves.read(), whole = wholes.read();
  for (std::size_t i = 0; i < 64; ++i) {
    EXPECT_EQ(half[i], 120.0F + 256.0F * static_cast<float>(i / 16));
    EXPECT_EQ(whole[i], i < 32 ? 496.0F : 1520.0F);
    EXPECT_EQ(votes.read()[i], i < 32 ? 0x49249249U : 0x92492492U);
  }
}

TEST(CudaEmulation, LanesThatDoNotComeAreTold) {
  const DeviceNumbers<float> numbers(ascending(64));
  const DeviceNumbers<unsigned> votes(std::vector<unsigned>(64));
  EXPECT_THROW(run(1, 64, 0, warp_sums, numbers.data(), numbers.data(), votes.data(), 31), Fault);
  // A warp of 17 lanes has no lanes 17 to 31.
  EXPECT_THROW(run(1, 17, 0, warp_sums, numbers.data(), numbers.data(), votes.data(), 32), Fault);
}

__global__ void shared_as_it_is(unsigned* to) {
  const auto& words = shared_memory<unsigned[block_size]>();
  to[static_cast<int>(blockIdx.x) * block_size + thread()] = words[thread()];
}

TEST(CudaEmulation, SharedMemoryThatNobodyWroteIsNoNumber) {
  const DeviceNumbers<unsigned> words(std::vector<unsigned>(40 * block_size));
  run(40, block_size, sizeof(unsigned[block_size]), shared_as_it_is, words.data());
  for (const unsigned word : words.read()) EXPECT_TRUE(word == 0x7fff7fffU || word == 0x7f007f00U) << word;
}

// Each thread copies 16 bytes, and looks before and behind the wait.
__global__ void copy_of_block(uint4* to, unsigned* early, const uint4* from, bool waits) {
  auto& shared = shared_memory<uint4[32]>();
  shared[thread()] = uint4{0, 0, 0, 0};
  ops::cuda::copy_16_async(&shared[thread()], &from[thread()]);
  ops::cuda::copies_commit();
  early[thread()] = shared[thread()].x;
  if (waits) ops::cuda::copies_wait<0>();
  __syncthreads();
  to[thread()] = shared[31 - thread()];
}

TEST(CudaEmulation, AsynchronousCopiesAreDoneSomeTimeBeforeTheWait) {
  std::vector<uint4> numbers(32);
  for (unsigned i = 0; i < 32; ++i) numbers[i] = {i + 1, 0, 0, i};
  const DeviceNumbers<uint4> from(numbers), to(numbers);
  const DeviceNumbers<unsigned> early(std::vector<unsigned>(32));
  run(1, 32, sizeof(uint4[32]), copy_of_block, to.data(), early.data(), from.data(), true);
  std::size_t arrived = 0;
  for (std::size_t i = 0; i < 32; ++i) {
    EXPECT_EQ(to.read()[i].x, 32 - i);
    arrived += early.read()[i] == i + 1 ? 1U : 0U;
  }
  EXPECT_GT(arrived, 4U);
  EXPECT_LT(arrived, 28U);
  run(1, 32, sizeof(uint4[32]), copy_of_block, to.data(), early.data(), from.data(), false);
  std::size_t lost = 0;
  for (const uint4& x : to.read()) lost += x.x == 0 ? 1U : 0U;
  EXPECT_GT(lost, 4U);
}

TEST(CudaEmulation, LaunchesThatAGpuRefusesAreRefused) {
  const DeviceNumbers<float> numbers({1});
  float host = 0;
  const auto launched = [](dim3 grid, dim3 block, std::size_t shared_bytes, float* to) {
    const cudaLaunchConfig_t config{grid, block, shared_bytes, nullptr, nullptr, 0};
    return cudaLaunchKernelEx(&config, index_too_large, to, 0);
  };
  EXPECT_EQ(launched(1, 1025, 512, numbers.data()), cudaErrorInvalidConfiguration);
  EXPECT_EQ(launched(dim3(1, 65536), 1, 512, numbers.data()), cudaErrorInvalidConfiguration);
  EXPECT_EQ(launched(0, 1, 512, numbers.data()), cudaErrorInvalidConfiguration);
  EXPECT_EQ(launched(1, 1, 512, &host), cudaErrorInvalidValue);
  EXPECT_EQ(launched(1, 1, 49153, numbers.data()), cudaErrorInvalidValue);
  EXPECT_EQ(cudaFuncSetAttribute(index_too_large, cudaFuncAttributeMaxDynamicSharedMemorySize, 232449), cudaErrorInvalidValue);
  EXPECT_EQ(cudaFuncSetAttribute(index_too_large, cudaFuncAttributeMaxDynamicSharedMemorySize, 232448), cudaSuccess);
  EXPECT_EQ(launched(1, 1, 232448, numbers.data()), cudaSuccess);
  cudaStreamSynchronize(nullptr);
}

}  // namespace
}  // namespace lockstep::emulation
