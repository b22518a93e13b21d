#include "tensor/compare.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

namespace lockstep {
namespace {

template <class T>
T load(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof(T));
  return value;
}

}  // namespace

double as_double(const std::byte* at, DType type) {
  switch (type) {
    case DType::f32:
      return load<float>(at);
    case DType::bf16:
      return std::bit_cast<float>(std::uint32_t{load<std::uint16_t>(at)} << 16);
    case DType::i32:
      return load<std::int32_t>(at);
    case DType::i64:
      return static_cast<double>(load<std::int64_t>(at));
    case DType::u16:
      return load<std::uint16_t>(at);
    case DType::u8:
      return std::to_integer<int>(*at);
    case DType::f64:
      return load<double>(at);
  }
  throw BrokenRule("an element type is one of DType's");
}

namespace {

/// A number that grows by one from each representable value to the next; 0 and -0 share one.
std::int64_t ordinal(const std::byte* at, DType type) {
  switch (type) {
    case DType::f32: {
      const std::int64_t bits = load<std::int32_t>(at);
      return bits >= 0 ? bits : std::numeric_limits<std::int32_t>::min() - bits;
    }
    case DType::bf16: {
      const std::int64_t bits = load<std::int16_t>(at);
      return bits >= 0 ? bits : std::numeric_limits<std::int16_t>::min() - bits;
    }
    case DType::f64: {
      const auto bits = load<std::int64_t>(at);
      return bits >= 0 ? bits : std::numeric_limits<std::int64_t>::min() - bits;
    }
    case DType::i64:
      return load<std::int64_t>(at);
    default:
      return static_cast<std::int64_t>(as_double(at, type));
  }
}

std::uint64_t ulps(const std::byte* a, const std::byte* b, DType type) {
  const std::int64_t x = ordinal(a, type), y = ordinal(b, type);
  return x > y ? static_cast<std::uint64_t>(x) - static_cast<std::uint64_t>(y)
               : static_cast<std::uint64_t>(y) - static_cast<std::uint64_t>(x);
}

void check_pair(const Tensor& a, const Tensor& b) {
  ensure(a.shape == b.shape, "compared tensors have one shape");
  ensure(a.dtype == b.dtype, "compared tensors have one type");
  ensure(a.device.kind == DeviceKind::cpu && b.device.kind == DeviceKind::cpu, "compared tensors lie in host memory");
}

const std::byte* row(const Tensor& tensor, std::int64_t index) {
  return tensor.data + index * tensor.stride() * static_cast<std::int64_t>(size_of(tensor.dtype));
}

/// Enters one pair of elements whose bits differ.
void enter(Difference& result, const std::byte* a, const std::byte* b, DType type) {
  const double x = as_double(a, type), y = as_double(b, type);
  constexpr double infinity = std::numeric_limits<double>::infinity();
  if (std::isnan(x) && std::isnan(y)) return;  // other payloads of NaN: no distance
  if (std::isnan(x) || std::isnan(y)) {
    result.max_abs = result.max_relative = infinity;
    result.max_ulp = std::numeric_limits<std::uint64_t>::max();
    return;
  }
  const double distance = x == y ? 0 : std::abs(x - y);
  const double relative = distance == 0 ? 0 : std::isinf(distance) ? infinity : distance / std::abs(y);
  result.max_abs = std::max(result.max_abs, distance);
  result.max_relative = std::max(result.max_relative, relative);
  result.max_ulp = std::max(result.max_ulp, ulps(a, b, type));
}

}  // namespace

Difference compare(const Tensor& a, const Tensor& b) {
  check_pair(a, b);
  Difference result;
  const std::size_t size = size_of(a.dtype);
  for (std::int64_t i = 0; i < a.rows(); ++i) {
    const std::byte *x = row(a, i), *y = row(b, i);
    for (std::int64_t j = 0; j < a.columns(); ++j, x += size, y += size) {
      if (std::memcmp(x, y, size) == 0) continue;
      if (!result.first) {
        result.first = i * a.columns() + j;
        result.a = as_double(x, a.dtype);
        result.b = as_double(y, a.dtype);
      }
      enter(result, x, y, a.dtype);
    }
  }
  return result;
}

std::string Difference::text() const {
  if (equal_bits()) return "bit-equal";
  return fmt::format("max abs {:.3g}, relative {:.3g}, {} ulp; first at element {}: {} and {}", max_abs, max_relative, max_ulp,
                     *first, a, b);
}

bool equal_bits(const Tensor& a, const Tensor& b) {
  check_pair(a, b);
  const std::size_t bytes = static_cast<std::size_t>(a.columns()) * size_of(a.dtype);
  for (std::int64_t i = 0; bytes != 0 && i < a.rows(); ++i) {
    if (std::memcmp(row(a, i), row(b, i), bytes) != 0) return false;
  }
  return true;
}

}  // namespace lockstep
