#include "ops/reduce.h"

#include <array>
#include <cmath>
#include <limits>

#include "ops/check.h"

namespace lockstep::ops {

void Reduce::sum_of_squares(const Tensor& sum, const Tensor& x) {
  check_dense(x, x.elements(), "x", storage_of(x, "x"));
  check_dense(sum, 1, "sum", DType::f64);
  check_device({&sum, &x});
  const OpScope running = scope("sum_of_squares");
  do_sum_of_squares(sum, x);
}

void Reduce::exact_squares(const Tensor& digits, const Tensor& x) {
  check_dense(x, x.elements(), "x", storage_of(x, "x"));
  check_dense(digits, exact_digits, "digits", DType::i64);
  check_device({&digits, &x});
  const OpScope running = scope("exact_squares");
  do_exact_squares(digits, x);
}

double Reduce::from_digits(std::span<const std::int64_t> digits) {
  ensure(std::ssize(digits) == exact_digits, "a sum has all its digits");
  constexpr std::int64_t base = std::int64_t{1} << 32;
  if (digits.back() > 0) return std::numeric_limits<double>::infinity();
  // Digits are brought into [0, base): then equal sums have equal digits.
  std::array<std::int64_t, exact_digits> own{};
  std::int64_t carry = 0;
  for (std::size_t i = 0; i + 1 < own.size(); ++i) {
    const std::int64_t value = digits[i] + carry;
    own[i] = value & (base - 1);
    carry = value >> 32;
  }
  double sum = 0;
  for (std::size_t i = own.size() - 1; i-- > 0;)
    sum += std::ldexp(static_cast<double>(own[i]), 32 * static_cast<int>(i) - exact_bias);
  return sum;
}

void Reduce::max_abs(const Tensor& largest, const Tensor& x) {
  check_dense(x, x.elements(), "x", storage_of(x, "x"));
  check_dense(largest, 1, "largest", DType::f64);
  check_device({&largest, &x});
  const OpScope running = scope("max_abs");
  do_max_abs(largest, x);
}

}  // namespace lockstep::ops
