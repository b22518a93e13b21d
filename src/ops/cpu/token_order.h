#pragma once

// The tokens of a batch by table row: what a gradient of embedding rows walks.

#include <cstdint>
#include <span>

namespace lockstep::ops::cpu {

/// One token: its id and where it stands.
struct TokenPlace {
  std::int32_t id;
  std::int32_t place;
};

/// Most tokens of one call; a multiple of 64, so that blocks of 64 tokens stay whole.
inline constexpr std::int64_t max_sorted_tokens = 16384;

/// `tokens` (at most max_sorted_tokens, none negative) in order of id, then of place, in part of `memory`, which holds at
/// least 2 * max_sorted_tokens. Places count from `first_place`.
std::span<const TokenPlace> sort_by_id(std::span<const std::int32_t> tokens, std::int32_t first_place,
                                       std::span<TokenPlace> memory);

}  // namespace lockstep::ops::cpu
