#pragma once

// The counter-based generator word by word, and what dropout makes of it.

#include <array>
#include <cstdint>

#include "ops/dropout.h"

namespace lockstep::ops::reference {

/// Philox4x32-10 as published (Salmon et al., SC'11).
std::array<std::uint32_t, 4> philox(std::array<std::uint32_t, 4> counter, const std::uint32_t (&key)[2]);
/// What an element of a dropout site is multiplied by: 0, or 1 / (1 - p) in float. Sample and index count from the site's first.
float dropout_factor(const DropoutSite& site, std::int64_t sample, std::int64_t position, std::int64_t index);

}  // namespace lockstep::ops::reference
