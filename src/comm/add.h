#pragma once

// The addition that collectives spend their time in, with the widest instructions of the machine.

#include <cstddef>
#include <cstdint>
#include <span>

namespace lockstep::comm {

/// Element i of every destination, behind its first `skipped` floats, = (left[i] + right[i]) / divisor for `count` elements, in
/// one pass. What is read may be a destination.
void add(const float* left, const float* right, float divisor, std::span<std::byte* const> destinations, std::int64_t skipped,
         std::int64_t count);

}  // namespace lockstep::comm
