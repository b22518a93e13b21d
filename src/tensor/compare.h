#pragma once

// How far two host tensors are apart. Both have one shape and one type; rows may be strided. All throw BrokenRule when
// shapes, types or devices differ.

#include <cstdint>
#include <optional>
#include <string>

#include "tensor/tensor.h"

namespace lockstep {

struct Difference {
  double max_abs = 0;                 ///< max |a - b|; infinite where one of the two is NaN
  double max_relative = 0;            ///< max |a - b| / |b|; infinite where b is zero and a is not
  std::uint64_t max_ulp = 0;          ///< representable numbers between a and b; the whole range where one of the two is NaN
  std::optional<std::int64_t> first;  ///< row-major index of the first element whose bits differ
  double a = 0, b = 0;                ///< the values there

  bool equal_bits() const { return !first.has_value(); }
  /// One line for people: "bit-equal", or the figures and the first mismatch.
  std::string text() const;
};

/// The element of that type which lies at `at`.
double as_double(const std::byte* at, DType type);

Difference compare(const Tensor& a, const Tensor& b);

/// Whether every element has the same bits (0 and -0 differ, equal NaNs do not).
bool equal_bits(const Tensor& a, const Tensor& b);

}  // namespace lockstep
