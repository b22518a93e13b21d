#pragma once

// Random numbers without state, addressed by (seed, name, index) (numerics.md section 1). They are Philox4x32-10's (Salmon et
// al., SC'11, "Parallel random numbers: as easy as 1, 2, 3"). They are equal on every machine, rank and thread count.

#include <array>
#include <cstdint>
#include <string_view>

namespace lockstep {

/// One named sequence of random numbers. Key: seed and a hash of the name. Copyable, thread-safe.
class CounterRng {
 public:
  CounterRng(std::uint64_t seed, std::string_view name);
  /// The sequence that another's key() stands for.
  static CounterRng with_key(const std::array<std::uint32_t, 2>& key) { return CounterRng(key); }

  /// Four 32-bit words of counter (hi, lo).
  std::array<std::uint32_t, 4> block(std::uint64_t lo, std::uint64_t hi = 0) const;
  /// Word `index` of the sequence: word index % 4 of block(index / 4).
  std::uint32_t word(std::uint64_t index, std::uint64_t hi = 0) const;
  /// 64 bits: the first two words of block(index).
  std::uint64_t word64(std::uint64_t index, std::uint64_t hi = 0) const;
  /// Uniform in [0, 1), 53 bits, from word64(index).
  double uniform(std::uint64_t index, std::uint64_t hi = 0) const;
  /// Uniform integer in [0, n), n >= 1, from word64(index) by multiplication (bias below n / 2^64).
  std::uint64_t below(std::uint64_t n, std::uint64_t index, std::uint64_t hi = 0) const;

  /// The 2x32-bit Philox key, for vector code that draws the same numbers.
  std::array<std::uint32_t, 2> key() const { return key_; }

 private:
  explicit CounterRng(const std::array<std::uint32_t, 2>& key) : key_(key) {}
  std::array<std::uint32_t, 2> key_;
};

}  // namespace lockstep
