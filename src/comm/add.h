#pragma once

// The addition that collectives spend their time in, with the widest instructions of the machine.

#include <cstddef>
#include <cstdint>
#include <span>

namespace lockstep::comm {

/// Sets element skipped + i of every destination to (left[i] + right[i]) / divisor, for i from 0 to `count` - 1, in one pass.
/// `left` and `right` may be destinations.
void add(const float* left, const float* right, float divisor, std::span<std::byte* const> destinations, std::int64_t skipped,
         std::int64_t count);

}  // namespace lockstep::comm
