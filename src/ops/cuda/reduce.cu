// Numbers about a flat range: a partial result per chunk of 4096 elements, combined in order.

#include <array>
#include <bit>
#include <cmath>

#include "ops/cuda/device/block.cuh"
#include "ops/cuda/device/lanes.cuh"
#include "ops/cuda/device/storage.cuh"
#include "ops/cuda/native/tensor_core.cuh"

namespace lockstep::ops::cuda {
namespace {

constexpr std::int64_t chunk = 4096;
constexpr unsigned reduce_threads = 256;
constexpr int own_elements = chunk / reduce_threads;  // of a thread that has its part of a chunk
constexpr unsigned most_blocks = 1024;                // of the search for the largest

/// A chunk's sum of squares in 16 lanes of double.
template <class S>
struct SquaresOfChunk {
  double* parts;
  const S* x;
  std::int64_t count;
  __device__ void operator()(std::int64_t c, int lane) const {
    const std::int64_t last = (c + 1) * chunk < count ? (c + 1) * chunk : count;
    double sum = 0;
    for (std::int64_t i = c * chunk + lane; i < last; i += lanes) {
      const double value = load(x + i);
      sum = fma(value, value, sum);
    }
    sum = lane_sum(sum);
    if (lane == 0) parts[c] = sum;
  }
};

struct Doubles {
  double of[reduce_threads];
};

/// sum = parts in order, onto what it is already unless `first`; one block.
__global__ void __launch_bounds__(reduce_threads)
    add_parts_kernel(double* sum, const double* parts, std::int64_t count, bool first) {
  auto& shared = shared_memory<Doubles>();
  double total = first ? 0 : *sum;
  for (std::int64_t begin = 0; begin < count; begin += reduce_threads) {
    if (begin + threadIdx.x < count) shared.of[threadIdx.x] = parts[begin + threadIdx.x];
    __syncthreads();
    for (std::int64_t i = 0; threadIdx.x == 0 && i < reduce_threads && begin + i < count; ++i) total += shared.of[i];
    __syncthreads();
  }
  if (threadIdx.x == 0) *sum = total;
}

__device__ __forceinline__ std::int32_t absolute_bits(float x) { return std::bit_cast<std::int32_t>(x) & 0x7FFFFFFF; }

struct IntegerParts {
  std::int32_t of[most_warps];
};

/// The largest absolute value's bits, which order as the numbers do, NaN above infinity; parts[b]: of what block b goes through.
template <class S>
__global__ void __launch_bounds__(reduce_threads) largest_kernel(std::int32_t* parts, const S* x, std::int64_t count) {
  auto& shared = shared_memory<IntegerParts>();
  std::int32_t largest = 0;
  for (std::int64_t i = std::int64_t{blockIdx.x} * reduce_threads + threadIdx.x; i < count;
       i += std::int64_t{gridDim.x} * reduce_threads) {
    largest = LargestOf()(largest, absolute_bits(load(x + i)));
  }
  largest = across_block(largest, shared.of, LargestOf());
  if (threadIdx.x == 0) parts[blockIdx.x] = largest;
}

__global__ void __launch_bounds__(reduce_threads)
    largest_part_kernel(double* largest, const std::int32_t* parts, std::int64_t count) {
  auto& shared = shared_memory<IntegerParts>();
  std::int32_t bits = 0;
  for (std::int64_t i = threadIdx.x; i < count; i += reduce_threads) bits = LargestOf()(bits, parts[i]);
  bits = across_block(bits, shared.of, LargestOf());
  if (threadIdx.x == 0) *largest = std::bit_cast<float>(bits);
}

constexpr int digit_count = Reduce::exact_digits;

struct DigitsShared {
  std::int64_t digits[digit_count];
  std::int32_t largest[most_warps];
  double sums[most_warps], rests[most_warps];
};

/// parts[c]: the exact sum of chunk c's squares in digits. Squares are exact in double. They are first rounded to multiples of
/// 2^(32 i - exact_bias), with i so large that 53 bits hold their sum. What is left is rounded for the next lower i.
template <class S>
__global__ void __launch_bounds__(reduce_threads) digits_kernel(std::int64_t* parts, const S* x, std::int64_t count) {
  auto& shared = shared_memory<DigitsShared>();
  const std::int64_t first = std::int64_t{blockIdx.x} * chunk + threadIdx.x;
  double rest[own_elements];
  std::int32_t own = 0;
  for (int e = 0; e < own_elements; ++e) {
    const std::int64_t i = first + e * std::int64_t{reduce_threads};
    const float value = i < count ? load(x + i) : 0.0F;
    rest[e] = static_cast<double>(value) * value;
    own = LargestOf()(own, absolute_bits(value));
  }
  if (threadIdx.x < digit_count) shared.digits[threadIdx.x] = 0;
  const std::int32_t bits = across_block(own, shared.largest, LargestOf());
  const bool finite = bits < 0x7F800000;
  if (threadIdx.x == 0 && !finite) shared.digits[digit_count - 1] = 1;
  constexpr int bits_of_square = 40;  // and 12 of the number of squares in a chunk
  static_assert(chunk == 1 << 12);
  const int top = bits > 0 && finite ? 2 * ilogbf(std::bit_cast<float>(bits)) + 2 - bits_of_square + Reduce::exact_bias : 0;
  int digit = top > 0 ? (top + 31) / 32 : 0;
  for (bool left = bits > 0 && finite; left; --digit) {
    const int exponent = 32 * digit - Reduce::exact_bias;
    const double ruler = 0x1.8p52 * ldexp(1.0, exponent);  // added to it, everything below a unit is rounded away
    double sum = 0, largest = 0;
    for (double& value : rest) {
      const double rounded = value + ruler - ruler;
      value -= rounded;
      sum += rounded;
      largest = LargestOf()(largest, fabs(value));
    }
    const double whole_sum = across_block(sum, shared.sums, SumOf());
    left = across_block(largest, shared.rests, LargestOf()) > 0;
    if (threadIdx.x != 0) continue;
    const auto whole = static_cast<std::int64_t>(ldexp(whole_sum, -exponent));
    shared.digits[digit] += whole & 0xFFFFFFFF;
    shared.digits[digit + 1] += whole >> 32;
  }
  __syncthreads();
  if (threadIdx.x < digit_count) parts[std::int64_t{blockIdx.x} * digit_count + threadIdx.x] = shared.digits[threadIdx.x];
}

struct LongParts {
  std::int64_t of[most_warps];
};

/// digits[d] += those of all parts, a block a digit.
__global__ void __launch_bounds__(reduce_threads)
    add_digits_kernel(std::int64_t* digits, const std::int64_t* parts, std::int64_t count) {
  auto& shared = shared_memory<LongParts>();
  std::int64_t sum = 0;
  for (std::int64_t i = threadIdx.x; i < count; i += reduce_threads) sum += parts[i * digit_count + blockIdx.x];
  sum = across_block(sum, shared.of, SumOf());
  if (threadIdx.x == 0) digits[blockIdx.x] += sum;
}

class CudaReduce final : public Reduce {
 public:
  explicit CudaReduce(const Context& context) : Reduce(context.observer), context_(context) {}

 private:
  /// body(first element, elements) for as many chunks at a time as the workspace has `room` for; once where there are none.
  template <class Body>
  static void in_rounds(std::int64_t count, std::int64_t room, const Body& body) {
    std::int64_t first = 0;
    do {
      const std::int64_t some = std::min(count - first, room * chunk);
      body(first, some);
      first += some;
    } while (first < count);
  }

  void do_sum_of_squares(const Tensor& sum, const Tensor& x) override {
    const std::span<double> parts = context_.scratch<double>();
    in_rounds(x.elements(), std::ssize(parts), [&](std::int64_t first, std::int64_t count) {
      const std::int64_t chunks = div_up(count, chunk);
      with_storage(x.dtype, [&]<class S>(S) {
        for_rows(context_, chunks, SquaresOfChunk<S>{parts.data(), data_of<const S>(x) + first, count});
      });
      launch(context_, {1, reduce_threads, sizeof(Doubles)}, &add_parts_kernel, data_of<double>(sum), parts.data(), chunks,
             first == 0);
    });
  }

  void do_exact_squares(const Tensor& digits, const Tensor& x) override {
    const std::span<std::int64_t> parts = context_.scratch<std::int64_t>();
    in_rounds(x.elements(), std::ssize(parts) / exact_digits, [&](std::int64_t first, std::int64_t count) {
      const std::int64_t chunks = div_up(count, chunk);
      with_storage(x.dtype, [&]<class S>(S) {
        launch(context_, {narrow<unsigned>(chunks), reduce_threads, sizeof(DigitsShared)}, &digits_kernel<S>, parts.data(),
               data_of<const S>(x) + first, count);
      });
      launch(context_, {digit_count, reduce_threads, sizeof(LongParts)}, &add_digits_kernel, data_of<std::int64_t>(digits),
             parts.data(), chunks);
    });
  }

  void do_max_abs(const Tensor& largest, const Tensor& x) override {
    std::int32_t* const parts = context_.scratch<std::int32_t>().data();
    const unsigned blocks = std::min(blocks_of(x.elements(), chunk), most_blocks);
    with_storage(x.dtype, [&]<class S>(S) {
      launch(context_, {blocks, reduce_threads, sizeof(IntegerParts)}, &largest_kernel<S>, parts, data_of<const S>(x),
             x.elements());
    });
    launch(context_, {1, reduce_threads, sizeof(IntegerParts)}, &largest_part_kernel, data_of<double>(largest), parts,
           std::int64_t{blocks});
  }

  Context context_;
};

}  // namespace

std::unique_ptr<Reduce> make_reduce(const Context& context) { return std::make_unique<CudaReduce>(context); }

}  // namespace lockstep::ops::cuda
