#pragma once

// Products of two bf16 matrices for the tests of their orders.

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "ops/cpu/product/product.h"
#include "tensor/bfloat16.h"

namespace lockstep::ops::cpu {

struct Case {
  std::int64_t m, n, k;
  bool a_transposed = false, b_transposed = true, accumulate = false;
};

// A matrix with rows further apart than they are long.
template <class T>
struct Matrix {
  std::int64_t rows, columns, stride;
  std::vector<T> values;

  Matrix(std::int64_t r, std::int64_t c, std::int64_t gap = 0)
      : rows(r), columns(c), stride(c + gap), values(static_cast<std::size_t>(r * (c + gap))) {}
  const T& operator()(std::int64_t row, std::int64_t column) const {
    return values[static_cast<std::size_t>(row * stride + column)];
  }
};
using Halves = Matrix<BFloat16>;

// The numbers of the operands. With tiny ones, products and sums of a few products lie about the least normal number. Zeros of
// both signs and denormals are among them.
enum class Numbers { ordinary, tiny };
inline BFloat16 draw(Numbers numbers, std::mt19937& random) {
  std::uniform_real_distribution<float> uniform(-1, 1);
  const float x = uniform(random);
  if (numbers == Numbers::ordinary) return to_bfloat16(x);
  const auto kind = random() % 16;
  if (kind == 0) return to_bfloat16(std::copysign(0.0F, x));
  if (kind == 1) return to_bfloat16(std::ldexp(x, -128));
  return to_bfloat16(std::ldexp(x, -62 + static_cast<int>(random() % 3)));
}

inline Halves drawn(std::int64_t rows, std::int64_t columns, std::int64_t gap, Numbers numbers, std::mt19937& random) {
  Halves matrix(rows, columns, gap);
  for (BFloat16& x : matrix.values) x = draw(numbers, random);
  return matrix;
}

struct Operands {
  Case shape;
  Halves a, b;
  Matrix<float> c;

  Operands(const Case& s, Numbers numbers, std::int64_t gap, std::mt19937& random)
      : shape(s),
        a(s.a_transposed ? drawn(s.k, s.m, gap, numbers, random) : drawn(s.m, s.k, gap, numbers, random)),
        b(s.b_transposed ? drawn(s.n, s.k, gap, numbers, random) : drawn(s.k, s.n, gap, numbers, random)),
        c(s.m, s.n, gap) {
    for (float& x : c.values) x = to_float(draw(numbers, random));
  }
  float a_at(std::int64_t i, std::int64_t k) const { return to_float(shape.a_transposed ? a(k, i) : a(i, k)); }
  float b_at(std::int64_t k, std::int64_t j) const { return to_float(shape.b_transposed ? b(j, k) : b(k, j)); }
  ProductTask task(float* to) const {
    return {.m = shape.m,
            .n = shape.n,
            .k = shape.k,
            .a = a.values.data(),
            .a_stride = a.stride,
            .a_transposed = shape.a_transposed,
            .a_type = DType::bf16,
            .b = b.values.data(),
            .b_stride = b.stride,
            .b_transposed = shape.b_transposed,
            .b_type = DType::bf16,
            .c = to,
            .c_stride = c.stride,
            .accumulate = shape.accumulate};
  }
  std::vector<float> run(Product& product) const {
    std::vector<float> to = c.values;
    product.run(task(to.data()));
    return to;
  }
};

// Whether x and y have the same bits; any two NaNs count as the same.
inline bool same(float x, float y) {
  return (std::isnan(x) && std::isnan(y)) || std::bit_cast<std::uint32_t>(x) == std::bit_cast<std::uint32_t>(y);
}

inline std::int64_t different(const std::vector<float>& x, const std::vector<float>& y) {
  std::int64_t count = 0;
  for (std::size_t i = 0; i < x.size(); ++i) count += same(x[i], y[i]) ? 0 : 1;
  return count;
}

inline std::string text(const Product& product, const Case& c) {
  return std::to_string(c.m) + " x " + std::to_string(c.n) + " x " + std::to_string(c.k) + (c.a_transposed ? " At" : "") +
         (c.b_transposed ? " Bt" : "") + (c.accumulate ? " +=" : "") + " on " + std::string(name_of(product.isa())) + ", " +
         std::to_string(product.team().size()) + " threads";
}

inline Case any_case(std::mt19937& random) {
  constexpr std::int64_t sizes[] = {1, 3, 7, 8, 17, 30, 65, 100}, depths[] = {1, 2, 3, 30, 31, 255, 256, 257, 511, 513, 600};
  return {sizes[random() % 8], sizes[random() % 8], depths[random() % 11],
          random() % 2 == 0,   random() % 2 == 0,   random() % 2 == 0};
}

}  // namespace lockstep::ops::cpu
