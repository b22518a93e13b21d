#include "comm/combine.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <type_traits>

#include "base/error.h"
#include "comm/add.h"
#include "tensor/bfloat16.h"

namespace lockstep::comm {
namespace {

constexpr std::int64_t block = 1024;  // elements: the sums of a block stay in the first-level cache
constexpr int most_levels = 17;       // of the tree: 65,536 ranks

template <class T>
struct Sum {
  static T of(T a, T b) { return a + b; }
};
template <class T>
struct Least {
  static T of(T a, T b) { return b < a ? b : a; }
};
template <class T>
struct Greatest {
  static T of(T a, T b) { return a < b ? b : a; }
};

float widen(BFloat16 x) { return to_float(x); }
template <class T>
T widen(T x) {
  return x;
}

void narrow_to(float x, BFloat16& to) { to = to_bfloat16(x); }
template <class T>
void narrow_to(T x, T& to) {
  to = x;
}

// Stored type T, added in A.
template <class T, class A, template <class> class Rule>
class Tree {
 public:
  Tree(std::span<const std::byte* const> sources, std::int64_t first, std::int64_t count)
      : sources_(sources), first_(first), count_(count) {}

  const A* of(std::size_t low, std::size_t high, int level) {
    A* to = sums_[static_cast<std::size_t>(level)].data();
    if (high - low == 1) {
      const T* from = reinterpret_cast<const T*>(sources_[low]) + first_;
      if constexpr (std::is_same_v<T, A>) return from;
      for (std::int64_t i = 0; i < count_; ++i) to[i] = widen(from[i]);
      return to;
    }
    const std::size_t middle = low + std::bit_floor(high - low - 1);
    const A* left = of(low, middle, level);
    const A* right = of(middle, high, level + 1);
    if constexpr (std::is_same_v<Rule<A>, Sum<float>>) {
      std::byte* const place = reinterpret_cast<std::byte*>(to);
      add(left, right, 1.0F, {&place, 1}, 0, count_);
    } else {
      for (std::int64_t i = 0; i < count_; ++i) to[i] = Rule<A>::of(left[i], right[i]);
    }
    return to;
  }

 private:
  std::span<const std::byte* const> sources_;
  std::int64_t first_, count_;
  alignas(64) std::array<std::array<A, block>, most_levels> sums_;
};

// What is stored of a block of results; `space` holds it where it is not the results themselves.
template <class T, class A>
const T* stored(const A* results, std::int64_t count, A divisor, T* space) {
  if constexpr (std::is_same_v<T, A>) {
    if (divisor == A{1}) return results;
  }
  for (std::int64_t i = 0; i < count; ++i) narrow_to(results[i] / divisor, space[i]);
  return space;
}

template <class T, class A, template <class> class Rule>
void combine_as(bool mean, std::span<const std::byte* const> sources, std::span<std::byte* const> destinations,
                std::int64_t begin, std::int64_t count) {
  const A divisor = mean ? static_cast<A>(sources.size()) : A{1};
  alignas(64) std::array<T, block> space;
  for (std::int64_t first = begin; first < begin + count; first += block) {
    const std::int64_t n = std::min(block, begin + count - first);
    Tree<T, A, Rule> tree(sources, first, n);
    const T* result = stored(tree.of(0, sources.size(), 0), n, divisor, space.data());
    for (std::byte* to : destinations) {
      std::byte* at = to + first * static_cast<std::int64_t>(sizeof(T));
      if (at != reinterpret_cast<const std::byte*>(result)) std::memcpy(at, result, static_cast<std::size_t>(n) * sizeof(T));
    }
  }
}

// Sums of floats: the last addition of the tree goes straight to where the results belong.
void combine_sums(bool mean, std::span<const std::byte* const> sources, std::span<std::byte* const> destinations,
                  std::int64_t begin, std::int64_t count) {
  const std::size_t middle = std::bit_floor(sources.size() - 1);
  const std::int64_t piece = sources.size() == 2 ? count : block;  // two sources need no space between
  for (std::int64_t first = begin; first < begin + count; first += piece) {
    const std::int64_t n = std::min(piece, begin + count - first);
    Tree<float, float, Sum> tree(sources, first, n);
    const float* left = tree.of(0, middle, 0);
    const float* right = tree.of(middle, sources.size(), 1);
    add(left, right, mean ? static_cast<float>(sources.size()) : 1.0F, destinations, first, n);
  }
}

template <class T, class A>
void combine_typed(Reduction reduction, std::span<const std::byte* const> sources, std::span<std::byte* const> destinations,
                   std::int64_t first, std::int64_t count) {
  switch (reduction) {
    case Reduction::min:
      return combine_as<T, A, Least>(false, sources, destinations, first, count);
    case Reduction::max:
      return combine_as<T, A, Greatest>(false, sources, destinations, first, count);
    case Reduction::sum:
    case Reduction::mean:
      if constexpr (std::is_same_v<T, float>) {
        if (sources.size() > 1) return combine_sums(reduction == Reduction::mean, sources, destinations, first, count);
      }
      return combine_as<T, A, Sum>(reduction == Reduction::mean, sources, destinations, first, count);
  }
}

}  // namespace

void combine(Reduction reduction, DType dtype, std::span<const std::byte* const> sources,
             std::span<std::byte* const> destinations, std::int64_t first, std::int64_t count) {
  switch (dtype) {
    case DType::f32:
      return combine_typed<float, float>(reduction, sources, destinations, first, count);
    case DType::bf16:
      return combine_typed<BFloat16, float>(reduction, sources, destinations, first, count);
    case DType::f64:
      return combine_typed<double, double>(reduction, sources, destinations, first, count);
    case DType::i32:
      return combine_typed<std::int32_t, std::int32_t>(reduction, sources, destinations, first, count);
    case DType::i64:
      return combine_typed<std::int64_t, std::int64_t>(reduction, sources, destinations, first, count);
    default:
      throw BrokenRule("f32, bf16, f64, i32 and i64 can be reduced");
  }
}

}  // namespace lockstep::comm
