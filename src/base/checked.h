#pragma once

// Integer arithmetic that says so when it goes wrong.

#include <cstdint>
#include <utility>

#include "base/error.h"

namespace lockstep {

/// `value` as a To; throws BrokenRule when it does not fit.
template <class To, class From>
constexpr To narrow(From value) {
  ensure(std::in_range<To>(value), "the number fits its type");
  return static_cast<To>(value);
}

/// a / b rounded up, for a >= 0 and b > 0.
constexpr std::int64_t div_up(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

/// `a` rounded up to a multiple of b.
constexpr std::int64_t round_up(std::int64_t a, std::int64_t b) { return div_up(a, b) * b; }

/// a * b; throws BrokenRule on overflow.
inline std::int64_t multiply(std::int64_t a, std::int64_t b) {
  std::int64_t product = 0;
  ensure(!__builtin_mul_overflow(a, b, &product), "the product fits 64 bits");
  return product;
}

}  // namespace lockstep
