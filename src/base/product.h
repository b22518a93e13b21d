#pragma once

// Products of numbers that a file or a word gives.

#include <cstdint>
#include <initializer_list>
#include <optional>

namespace lockstep {

/// Nothing where 64 bits do not hold it.
inline std::optional<std::int64_t> product_of(std::initializer_list<std::int64_t> factors) {
  std::int64_t product = 1;
  for (const std::int64_t factor : factors) {
    if (__builtin_mul_overflow(product, factor, &product)) return std::nullopt;
  }
  return product;
}

}  // namespace lockstep
