#include "ops/cpu/token_order.h"

#include <algorithm>
#include <array>

#include "base/error.h"

namespace lockstep::ops::cpu {

std::span<const TokenPlace> sort_by_row(std::span<const std::int32_t> tokens, const TableRows& table, std::int32_t first_place,
                                        std::span<TokenPlace> memory) {
  ensure(memory.size() >= 2 * tokens.size(), "the tokens fit the memory to sort them");
  std::size_t count = 0;
  std::int32_t largest = 0;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    const std::int64_t row = tokens[i] - table.first;
    if (row < 0 || row >= table.count) continue;
    memory[count] = {static_cast<std::int32_t>(row), first_place + static_cast<std::int32_t>(i)};
    largest = std::max(largest, memory[count++].row);
  }
  std::span<TokenPlace> sorted = memory.first(count), other = memory.subspan(count, count);
  // Radix sort from the lowest digit: every pass keeps the order of the one before.
  constexpr int digit_bits = 10;
  for (int shift = 0; shift < 31 && (largest >> shift) > 0; shift += digit_bits) {
    std::array<std::uint32_t, (1U << digit_bits) + 1> begins{};
    const auto digit = [shift](const TokenPlace& token) { return (static_cast<std::uint32_t>(token.row) >> shift) & 0x3FFU; };
    for (const TokenPlace& token : sorted) ++begins[digit(token) + 1];
    for (std::size_t d = 1; d < begins.size(); ++d) begins[d] += begins[d - 1];
    for (const TokenPlace& token : sorted) other[begins[digit(token)]++] = token;
    std::swap(sorted, other);
  }
  return sorted;
}

}  // namespace lockstep::ops::cpu
