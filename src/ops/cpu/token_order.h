#pragma once

// The tokens of a batch by table row: what a gradient of embedding rows walks.

#include <cstdint>
#include <span>

namespace lockstep::ops::cpu {

/// One token: its row of the table and its place in the batch.
struct TokenPlace {
  std::int32_t row;
  std::int32_t place;
};

/// Most tokens that are sorted in the kernels' own workspace at a time; a multiple of 64, so that blocks of 64 stay whole.
inline constexpr std::int64_t max_sorted_tokens = 16384;

/// The rows of a table: row i is token first + i.
struct TableRows {
  std::int64_t first = 0, count = 0;
};

/// The places of those of `tokens` that have a row in the table, in order of row, then of place. They lie in a part of `memory`,
/// which holds at least twice as many as there are tokens. Places count from `first_place`.
std::span<const TokenPlace> sort_by_row(std::span<const std::int32_t> tokens, const TableRows& table, std::int32_t first_place,
                                        std::span<TokenPlace> memory);

}  // namespace lockstep::ops::cpu
