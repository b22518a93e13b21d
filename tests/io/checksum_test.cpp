#include "io/checksum.h"

#include <gtest/gtest.h>
#include <hwy/targets.h>

#include <cstring>
#include <random>
#include <set>
#include <vector>

#include "base/error.h"

namespace lockstep::io {
namespace {

std::vector<std::byte> noise(std::size_t size, unsigned seed = 1) {
  std::mt19937 generator(seed);
  std::vector<std::byte> bytes(size);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(generator() & 0xFF);
  return bytes;
}

// The definition, one word at a time: what a checkpoint's manifest promises to every later version.
std::uint64_t by_definition(std::span<const std::byte> data, std::size_t word_size, std::uint64_t first) {
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i * word_size < data.size(); ++i) {
    std::uint64_t word = 0;
    std::memcpy(&word, data.data() + i * word_size, word_size);
    const std::uint64_t y = word * 0x9E3779B1 + (first + i + 1) * 0x9E3779B97F4A7C15;
    const std::uint64_t z = (y ^ (y >> 29)) * 0x85EBCA77;
    sum += z ^ (z >> 32);
  }
  return sum;
}

TEST(Checksum, FollowsItsDefinitionAtEverySizeAndAlignment) {
  const auto data = noise(4096 + 64);
  for (const std::size_t element : {1u, 2u, 4u, 8u}) {
    const std::size_t word = element == 8 ? 4 : element;
    for (std::size_t count = 0; count < 70; ++count) {
      for (const std::size_t offset : {0u, 1u, 4u}) {
        const auto part = std::span(data).subspan(offset, count * element);
        EXPECT_EQ(checksum(part, element, 1000 * count), by_definition(part, word, 1000 * count * (element / word)));
      }
    }
  }
}

TEST(Checksum, KeepsItsValues) {
  const auto data = noise(1000, 7);
  EXPECT_EQ(checksum({}, 4, 0), 0u);
  EXPECT_EQ(checksum(data, 4, 0), by_definition(data, 4, 0));
  const std::vector<std::byte> zeros(16);
  EXPECT_EQ(checksum(zeros, 4, 0), 0xAA29CF4086B31CD4u);
}

TEST(Checksum, IsTheSameOnEveryInstructionSet) {
  const auto data = noise(5000, 3);
  const std::int64_t supported = hwy::SupportedTargets() & HWY_TARGETS;
  int tried = 0;
  for (int bit = 0; bit < 63; ++bit) {
    const std::int64_t target = std::int64_t{1} << bit;
    if ((supported & target) == 0) continue;
    hwy::GetChosenTarget().Update(target);
    for (const std::size_t element : {1u, 2u, 4u, 8u}) {
      EXPECT_EQ(checksum(data, element, 9), by_definition(data, element == 8 ? 4 : element, element == 8 ? 18 : 9)) << bit;
    }
    ++tried;
  }
  hwy::GetChosenTarget().Update(supported);
  EXPECT_GT(tried, 1);
}

TEST(Checksum, AddsUpOverAnySplit) {
  const auto data = noise(8000);
  for (const std::size_t element : {1u, 2u, 4u, 8u}) {
    const std::uint64_t whole = checksum(data, element, 5);
    const std::size_t count = data.size() / element;
    for (std::size_t parts = 1; parts < 12; ++parts) {
      std::uint64_t sum = 0;
      for (std::size_t part = parts; part-- > 0;) {
        const std::size_t first = count * part / parts, last = count * (part + 1) / parts;
        sum += checksum(std::span(data).subspan(first * element, (last - first) * element), element, 5 + first);
      }
      EXPECT_EQ(sum, whole) << parts;
    }
  }
}

TEST(Checksum, NoticesEveryFlippedBit) {
  auto data = noise(512);
  for (const std::size_t element : {1u, 2u, 4u, 8u}) {
    std::set<std::uint64_t> seen{checksum(data, element, 0)};
    for (std::size_t bit = 0; bit < data.size() * 8; ++bit) {
      data[bit / 8] ^= std::byte{1} << (bit % 8);
      EXPECT_TRUE(seen.insert(checksum(data, element, 0)).second) << "bit " << bit;
      data[bit / 8] ^= std::byte{1} << (bit % 8);
    }
  }
}

TEST(Checksum, NoticesMovedAndSwappedElements) {
  auto data = noise(4096);
  const std::uint64_t whole = checksum(data, 4, 0);
  EXPECT_NE(checksum(data, 4, 1), whole);
  EXPECT_NE(checksum(data, 2, 0), whole);
  for (std::size_t i = 4; i < data.size(); i += 4) {
    for (std::size_t byte = 0; byte < 4; ++byte) std::swap(data[byte], data[i + byte]);
    EXPECT_NE(checksum(data, 4, 0), whole) << i;
    for (std::size_t byte = 0; byte < 4; ++byte) std::swap(data[byte], data[i + byte]);
  }
  // The same value everywhere: only the index tells the places apart.
  std::set<std::uint64_t> seen;
  std::vector<float> constant(1000, 1.0f);
  for (std::size_t i = 0; i < constant.size(); ++i) {
    constant[i] = 2.0f;
    EXPECT_TRUE(seen.insert(checksum(std::as_bytes(std::span(constant)), 4, 0)).second) << i;
    constant[i] = 1.0f;
  }
}

TEST(Checksum, RefusesPartialAndOddElements) {
  const auto data = noise(6);
  EXPECT_THROW(checksum(data, 4, 0), BrokenRule);
  EXPECT_THROW(checksum(data, 3, 0), BrokenRule);
}

}  // namespace
}  // namespace lockstep::io
