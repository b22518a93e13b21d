#pragma once

// Consecutive things by number, and how a number of them is divided.

#include <algorithm>
#include <cstdint>

#include "base/error.h"

namespace lockstep::layout {

struct Range {
  std::int64_t first = 0, count = 0;
  std::int64_t end() const { return first + count; }
  friend bool operator==(const Range&, const Range&) = default;
};

/// Part `part` of `parts` of n things: from floor(part n / parts) on. The parts of k d parts lie within those of d parts.
inline Range part_of(std::int64_t n, int part, int parts) {
  ensure(n >= 0 && part >= 0 && part < parts, "a part lies among its parts");
  const auto place = [&](std::int64_t i) {
    return (n / parts) * i + (n % parts) * i / parts;
  };  // floor(i n / parts), without overflow
  return {place(part), place(part + 1) - place(part)};
}

/// What both ranges have; empty where they have nothing in common.
inline Range overlap(const Range& a, const Range& b) {
  const std::int64_t first = std::max(a.first, b.first);
  return {first, std::max<std::int64_t>(0, std::min(a.end(), b.end()) - first)};
}

}  // namespace lockstep::layout
