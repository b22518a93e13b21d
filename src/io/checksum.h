#pragma once

// The checksum of a tensor: the sum over its words of mix(word, global index), modulo 2^64. It does not depend on how the
// elements are split. The sums of disjoint ranges add up to the sum of the whole, in any order. Neither instruction set nor
// thread count changes it.
//
// For every index, mix is a bijection of the word, so a single wrong word is always noticed. Any other difference goes unnoticed
// with a probability of about 2^-64.

#include <cstddef>
#include <cstdint>
#include <span>

namespace lockstep::io {

/// The checksum of elements [first, first + data.size() / element_size) of a tensor. `element_size` is 1, 2, 4 or 8 bytes.
/// Elements are little-endian words of that size; an element of 8 bytes is two words of 4.
std::uint64_t checksum(std::span<const std::byte> data, std::size_t element_size, std::uint64_t first_element);

}  // namespace lockstep::io
