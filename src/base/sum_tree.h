#pragma once

// A binary tree's sum of 2^k things that come one after another, which keeps as few as it can. Thing i goes to a place of a
// stack. It is added onto the place below while both are whole halves. Place 0 ends with `((0 + 1) + (2 + 3)) + ((4 + 5) + (6 +
// 7))`. Ranks are added in this order (comm/combine.h).

#include <bit>
#include <cstdint>

namespace lockstep {

/// The place for thing `number`: behind the halves that wait.
inline int place_in_tree(int number) { return std::popcount(static_cast<std::uint32_t>(number)); }

/// Calls merge(to, from) for every place that is added onto the one below once thing `number` is there.
template <class Merge>
void merge_behind(int number, const Merge& merge) {
  int place = place_in_tree(number);
  for (std::uint32_t rest = static_cast<std::uint32_t>(number); (rest & 1U) != 0; rest >>= 1U, --place) merge(place - 1, place);
}

/// Places that the sum of `things` things, a power of two, takes.
inline int places_of_tree(int things) { return std::countr_zero(static_cast<std::uint32_t>(things)) + 1; }

}  // namespace lockstep
