#pragma once

// How numbers of several ranks become one. Sums of floating-point numbers over ranks follow one binary tree over the rank
// index on every transport (numerics.md section 3.4).

#include <cstdint>
#include <string_view>

namespace lockstep::comm {

enum class Reduction : std::uint8_t { sum, mean, min, max };

std::string_view name_of(Reduction reduction);

}  // namespace lockstep::comm
