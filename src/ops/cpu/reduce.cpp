// Numbers about a flat range: a partial result per chunk of 4096 elements, combined in order.

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/cpu/reduce.cpp"
#include <hwy/foreach_target.h>
// clang-format off
#include <hwy/highway.h>
// clang-format on

#include <array>
#include <bit>
#include <cmath>

#include "ops/cpu/context.h"
#include "ops/cpu/isa.h"
#include "ops/cpu/simd/storage-inl.h"

HWY_BEFORE_NAMESPACE();
namespace lockstep::ops::cpu::HWY_NAMESPACE {

/// Sum of squares in 16 lanes of double. The lanes are added by the tree (i, i + 8), (i, i + 4), (i, i + 2), (0, 1).
double SquaresOfChunk(const float* x, std::int64_t count) {
  const hn::CappedTag<double, 8> doubles;
  const hn::Rebind<float, decltype(doubles)> singles;
  constexpr std::size_t lanes = hn::MaxLanes(doubles), vectors = 16 / lanes;
  hn::Vec<decltype(doubles)> sums[vectors];
  for (auto& sum : sums) sum = hn::Zero(doubles);
  const auto add_sixteen = [&](const float* from) HWY_ATTR {
    for (std::size_t k = 0; k < vectors; ++k) {
      const auto value = hn::PromoteTo(doubles, hn::LoadU(singles, from + k * lanes));
      sums[k] = hn::MulAdd(value, value, sums[k]);
    }
  };
  std::int64_t i = 0;
  for (; i + 16 <= count; i += 16) add_sixteen(x + i);
  if (i < count) {
    float part[16] = {};
    std::copy(x + i, x + count, part);
    add_sixteen(part);
  }
  alignas(64) double all[16];
  for (std::size_t k = 0; k < vectors; ++k) hn::Store(sums[k], doubles, all + k * lanes);
  for (std::size_t half = 8; half > 0; half /= 2) {
    for (std::size_t k = 0; k < half; ++k) all[k] += all[k + half];
  }
  return all[0];
}

/// Rounds each of rest [count] to a multiple of `unit`, leaves the remainders in `rest`, and returns the sum of the multiples.
/// The count is a multiple of 16. The sum is exact while it has 53 bits. `left` tells whether a remainder is not zero.
double RoundedSum(double* rest, std::int64_t count, double unit, bool& left) {
  const hn::CappedTag<double, 8> d;
  // Added to a number whose last bit is a unit, everything below one is rounded away.
  const auto ruler = hn::Set(d, 0x1.8p52 * unit);
  auto sum = hn::Zero(d), largest = hn::Zero(d);
  for (std::int64_t i = 0; i < count; i += static_cast<std::int64_t>(hn::Lanes(d))) {
    const auto value = hn::Load(d, rest + i);
    const auto rounded = hn::Sub(hn::Add(value, ruler), ruler);
    const auto remainder = hn::Sub(value, rounded);
    sum = hn::Add(sum, rounded);
    largest = hn::Max(largest, hn::Abs(remainder));
    hn::Store(remainder, d, rest + i);
  }
  left = hn::GetLane(hn::MaxOfLanes(d, largest)) > 0;
  return hn::GetLane(hn::SumOfLanes(d, sum));
}

/// `count` elements as floats.
void WidenChunk(const BFloat16* from, std::int64_t count, float* to) {
  const hn::CappedTag<float, 16> floats;
  constexpr auto lanes = static_cast<std::int64_t>(hn::MaxLanes(floats));
  std::int64_t i = 0;
  for (; i + lanes <= count; i += lanes) StoreAs(floats, LoadAs(floats, from + i), to + i);
  for (; i < count; ++i) to[i] = to_float(from[i]);
}

/// Largest bits of the absolute values: as integers they have the order of the numbers, NaN above infinity.
std::int32_t LargestBits(const float* x, std::int64_t count) {
  const hn::CappedTag<std::int32_t, 16> integers;
  constexpr auto lanes = static_cast<std::int64_t>(hn::MaxLanes(integers));
  const auto* bits = reinterpret_cast<const std::int32_t*>(x);
  const auto absolute = hn::Set(integers, 0x7FFFFFFF);
  auto largest = hn::Zero(integers);
  std::int64_t i = 0;
  for (; i + lanes <= count; i += lanes) largest = hn::Max(largest, hn::And(hn::LoadU(integers, bits + i), absolute));
  std::int32_t result = hn::GetLane(hn::MaxOfLanes(integers, largest));
  for (; i < count; ++i) result = std::max(result, bits[i] & 0x7FFFFFFF);
  return result;
}

}  // namespace lockstep::ops::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lockstep::ops::cpu {
namespace {

HWY_EXPORT(SquaresOfChunk);
HWY_EXPORT(RoundedSum);
HWY_EXPORT(LargestBits);
HWY_EXPORT(WidenChunk);

constexpr std::int64_t chunk = 4096;
constexpr std::int64_t chunks_per_tile = 8;

class CpuReduce final : public Reduce {
 public:
  explicit CpuReduce(const Context& context) : Reduce(context.observer), context_(context) {
    const ScopedIsa scope(context.isa);
    squares_ = &HWY_DYNAMIC_DISPATCH(SquaresOfChunk);
    rounded_sum_ = &HWY_DYNAMIC_DISPATCH(RoundedSum);
    largest_ = &HWY_DYNAMIC_DISPATCH(LargestBits);
    widen_ = &HWY_DYNAMIC_DISPATCH(WidenChunk);
  }

 private:
  /// of_chunk(`count` elements of x from `first`, as floats).
  template <class OfChunk>
  auto of_elements(const Tensor& x, std::int64_t first, std::int64_t count, const OfChunk& of_chunk) const {
    if (x.dtype == DType::f32) return of_chunk(floats(x) + first, count);
    float wide[chunk];
    widen_(data_of<BFloat16>(x) + first, count, wide);
    return of_chunk(wide, count);
  }

  /// partials[i] = of_chunk(chunk i) for up to a workspace of chunks at a time, then combine(partial) in order.
  template <class T, class OfChunk, class Combine>
  void for_chunks(const Tensor& x, const OfChunk& of_chunk, const Combine& combine) {
    const std::span<T> partials = context_.scratch<T>();
    const std::int64_t per_round = static_cast<std::int64_t>(partials.size()) * chunk;
    for (std::int64_t begin = 0; begin < x.elements(); begin += per_round) {
      const std::int64_t count = std::min(per_round, x.elements() - begin);
      const std::int64_t chunks = div_up(count, chunk);
      context_.deal(chunks, chunks_per_tile, [&](std::int64_t first, std::int64_t last) {
        for (std::int64_t c = first; c < last; ++c) {
          partials[static_cast<std::size_t>(c)] = of_elements(x, begin + c * chunk, std::min(chunk, count - c * chunk), of_chunk);
        }
      });
      for (std::int64_t c = 0; c < chunks; ++c) combine(partials[static_cast<std::size_t>(c)]);
    }
  }

  void do_sum_of_squares(const Tensor& sum, const Tensor& x) override {
    double total = 0;
    for_chunks<double>(x, squares_, [&](double part) { total += part; });
    *data_of<double>(sum) = total;
  }

  using Digits = std::array<std::int64_t, exact_digits>;

  // Squares are exact in double, of 48 bits. They are first rounded to multiples of 2^(32 i - exact_bias), with i so large that
  // 53 bits hold a chunk's sum. What is left is rounded for the next lower i, until nothing is left.
  Digits digits_of_chunk(const float* x, std::int64_t count) const {
    Digits digits{};
    const std::int32_t bits = largest_(x, count);
    if (bits == 0) return digits;
    if (bits >= 0x7F800000) {
      digits.back() = 1;
      return digits;
    }
    alignas(64) std::array<double, chunk> rest;
    const std::int64_t padded = round_up(count, 16);
    for (std::int64_t i = 0; i < count; ++i) rest[static_cast<std::size_t>(i)] = static_cast<double>(x[i]) * x[i];
    std::fill(rest.begin() + count, rest.begin() + padded, 0.0);
    constexpr int bits_of_square = 40;  // and 12 of the number of squares in a chunk
    static_assert(chunk == 1 << 12);
    const int top = 2 * std::ilogb(std::bit_cast<float>(bits)) + 2;  // squares are below 2^top
    int digit = static_cast<int>(div_up(std::max(0, top - bits_of_square + exact_bias), 32));
    for (bool left = true; left; --digit) {
      const int exponent = 32 * digit - exact_bias;
      const double sum = rounded_sum_(rest.data(), padded, std::ldexp(1.0, exponent), left);
      const auto whole = static_cast<std::int64_t>(std::ldexp(sum, -exponent));
      digits[static_cast<std::size_t>(digit)] += whole & 0xFFFFFFFF;
      digits[static_cast<std::size_t>(digit) + 1] += whole >> 32;
    }
    return digits;
  }

  void do_exact_squares(const Tensor& digits, const Tensor& x) override {
    const auto of_chunk = [this](const float* from, std::int64_t count) { return digits_of_chunk(from, count); };
    const std::span<std::int64_t> sums = elements<std::int64_t>(digits);
    for_chunks<Digits>(x, of_chunk, [&](const Digits& part) {
      for (std::size_t i = 0; i < part.size(); ++i) sums[i] += part[i];
    });
  }

  void do_max_abs(const Tensor& largest, const Tensor& x) override {
    std::int32_t bits = 0;
    for_chunks<std::int32_t>(x, largest_, [&](std::int32_t part) { bits = std::max(bits, part); });
    *data_of<double>(largest) = std::bit_cast<float>(bits);
  }

  Context context_;
  decltype(&HWY_STATIC_DISPATCH(SquaresOfChunk)) squares_;
  decltype(&HWY_STATIC_DISPATCH(RoundedSum)) rounded_sum_;
  decltype(&HWY_STATIC_DISPATCH(LargestBits)) largest_;
  decltype(&HWY_STATIC_DISPATCH(WidenChunk)) widen_;
};

}  // namespace

std::unique_ptr<Reduce> make_reduce(const Context& context) { return std::make_unique<CpuReduce>(context); }

}  // namespace lockstep::ops::cpu
#endif
