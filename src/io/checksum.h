#pragma once

// The checksum of a tensor: the sum over its words of mix(word, global index), modulo 2^64. It does not depend on how the
// elements are split: the sums of disjoint ranges add up to the sum of the whole, in any order. Neither instruction set nor
// thread count changes it.
//
// mix is a bijection of the word for every index, so a single wrong word is always noticed; any other difference goes
// unnoticed with a probability of about 2^-64.

#include <cstddef>
#include <cstdint>
#include <span>

namespace lockstep::io {

/// The checksum of elements [first, first + data.size() / element_size) of a tensor. `element_size` is 1, 2, 4 or 8 bytes;
/// elements are little-endian words of that size, those of 8 bytes two words of 4 each.
std::uint64_t checksum(std::span<const std::byte> data, std::size_t element_size, std::uint64_t first_element);

}  // namespace lockstep::io
