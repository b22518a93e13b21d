#pragma once

// Several ranks in one test, and values that every rank can work out for every other.

#include <bit>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "comm/communicator.h"
#include "tensor/bfloat16.h"

namespace lockstep::test {

/// Runs `body` on ranks of the transport that the test program is for. A test whose ranks wait in vain for another one ends after
/// a minute.
void on_ranks(int ranks, const std::function<void(comm::Communicator&)>& body);

template <class T>
Tensor tensor_of(std::vector<T>& values) {
  return view(std::span(values), Shape{static_cast<std::int64_t>(values.size())});
}
template <>
inline Tensor tensor_of(std::vector<BFloat16>& values) {
  Tensor tensor;
  tensor.data = reinterpret_cast<std::byte*>(values.data());
  tensor.shape = Shape{static_cast<std::int64_t>(values.size())};
  tensor.dtype = DType::bf16;
  return tensor;
}

/// Element i of rank r: of any size and sign for floating-point types, so that the order of additions shows.
template <class T>
T element(int rank, std::int64_t i) {
  auto x = static_cast<std::uint64_t>(rank) * 0x9E3779B97F4A7C15ULL + static_cast<std::uint64_t>(i) * 0xBF58476D1CE4E5B9ULL;
  x = (x ^ (x >> 29)) * 0x94D049BB133111EBULL;
  const auto small = static_cast<int>(x >> 40) % 20001 - 10000;
  return static_cast<T>(small) / T{static_cast<T>(sizeof(T) >= 4 && std::is_floating_point_v<T> ? 7 : 1)};
}
template <>
inline BFloat16 element(int rank, std::int64_t i) {
  return to_bfloat16(element<float>(rank, i));
}

template <class T>
std::vector<T> elements_of(int rank, std::int64_t count, std::int64_t first = 0) {
  std::vector<T> values(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < count; ++i) values[static_cast<std::size_t>(i)] = element<T>(rank, first + i);
  return values;
}

/// The sum over ranks by the tree of numerics.md section 3.4, one element at a time.
template <class A, class Value>
A tree(int low, int high, comm::Reduction reduction, const Value& value) {
  if (high - low == 1) return value(low);
  int half = 1;
  while (2 * half < high - low) half *= 2;
  const A left = tree<A>(low, low + half, reduction, value), right = tree<A>(low + half, high, reduction, value);
  if (reduction == comm::Reduction::min) return right < left ? right : left;
  if (reduction == comm::Reduction::max) return left < right ? right : left;
  return left + right;
}

/// Element i of the reduction over `ranks`.
template <class T>
T reduced(int ranks, std::int64_t i, comm::Reduction reduction) {
  if constexpr (std::is_same_v<T, BFloat16>) {
    const float sum = tree<float>(0, ranks, reduction, [i](int r) { return to_float(element<BFloat16>(r, i)); });
    return to_bfloat16(reduction == comm::Reduction::mean ? sum / static_cast<float>(ranks) : sum);
  } else {
    const T sum = tree<T>(0, ranks, reduction, [i](int r) { return element<T>(r, i); });
    return reduction == comm::Reduction::mean ? sum / static_cast<T>(ranks) : sum;
  }
}

}  // namespace lockstep::test
